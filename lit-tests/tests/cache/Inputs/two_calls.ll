target triple = "nvptx64-nvidia-cuda"
declare void @f(ptr)
declare void @g(ptr)
define ptx_kernel void @first(ptr %p) {
  call void @f(ptr %p)
  ret void
}
define ptx_kernel void @second(ptr %p) {
  call void @g(ptr %p)
  ret void
}
!llvm.commandline = !{!0}
!0 = !{!"clang --no-cuda-include-ptx=all"}
