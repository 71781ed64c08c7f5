target triple = "nvptx64-nvidia-cuda"
@calls = addrspace(1) global i32 0
define i32 @helper(i32 %value) {
  store i32 1, ptr addrspace(1) @calls
  %result = mul i32 %value, %value
  ret i32 %result
}
