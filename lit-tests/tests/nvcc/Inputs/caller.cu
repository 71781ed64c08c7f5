__device__ int callee(int);
__device__ int shared;
__global__ void kernel(int *p) { *p = callee(*p) + shared; }
__global__ void unused(int *p) { *p = 1; }
void launch() { kernel<<<1, 1>>>(0); }
