target triple = "nvptx64-nvidia-cuda"
define void @NAME(ptr %p) {
  store volatile i32 1, ptr %p
  ret void
}
