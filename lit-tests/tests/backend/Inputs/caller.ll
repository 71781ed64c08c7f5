target triple = "nvptx64-nvidia-cuda"
declare i32 @helper(i32)
define ptx_kernel void @kernel(ptr addrspace(1) %p) {
  %value = load i32, ptr addrspace(1) %p
  %result = call i32 @helper(i32 %value)
  store i32 %result, ptr addrspace(1) %p
  ret void
}
