__device__ int callee(int);
__global__ void clang(int *p) { *p = callee(*p) + 1; }
void launch_clang() { clang<<<1, 1>>>(0); }
