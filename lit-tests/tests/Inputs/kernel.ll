target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @kernel() {
  ret void
}
