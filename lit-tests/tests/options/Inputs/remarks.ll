target triple = "nvptx64-nvidia-cuda"

define i32 @shared(i32 %value) {
  %square = mul i32 %value, %value
  ret i32 %square
}

define ptx_kernel void @first(ptr %out, i32 %value) {
  %result = call i32 @shared(i32 %value)
  store i32 %result, ptr %out
  ret void
}

define ptx_kernel void @second(ptr %out, i32 %value) {
  %result = call i32 @shared(i32 %value)
  %more = add i32 %result, 1
  store i32 %more, ptr %out
  ret void
}
