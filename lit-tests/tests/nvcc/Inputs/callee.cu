extern __device__ int shared;
__device__ int callee(int x) { return x * 2 + shared; }
