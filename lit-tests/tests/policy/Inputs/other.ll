target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @other() {
  ret void
}
