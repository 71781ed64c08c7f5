// A device function that kernels of other files call: their link needs it.
__device__ float scaled(float value) { return value * 3.0f; }
