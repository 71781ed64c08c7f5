// One unit of two, for every release of clang, without headers. The kernel of the first calls a function of the second.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __constant__ __attribute__((constant))
struct dim3 {
  unsigned x, y, z;
};
typedef struct stream *cudaStream_t;
extern "C" unsigned __cudaPushCallConfiguration(dim3, dim3, unsigned long = 0, void * = 0);
// Clang 15 looks it up when it compiles for the GPU, where it knows no release of CUDA.
extern "C" int cudaConfigureCall(dim3, dim3, unsigned long = 0, cudaStream_t = 0);
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, cudaStream_t);

__device__ int other(int x);
void second(int *p);

#ifdef SECOND
__constant__ int fixed = 7;
__device__ int other(int x) { return x * 3 + fixed; }
__global__ void kernel2(int *p) { *p = fixed; }
void second(int *p) { kernel2<<<dim3{1, 1, 1}, dim3{1, 1, 1}>>>(p); }
#else
__device__ int variable = 5;
__global__ void kernel1(int *p) { *p = other(*p) + variable; }
int main() {
  kernel1<<<dim3{1, 1, 1}, dim3{1, 1, 1}>>>(0);
  second(0);
}
#endif
