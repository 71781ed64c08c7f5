// What the compiler itself needs of CUDA's headers, which take a second to read: with these few lines a file compiles in
// a fraction of that.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x) : x(x), y(1), z(1) {}
};

extern "C" int cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, unsigned long shared, void *stream);
extern "C" int __cudaPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0, void *stream = nullptr);
extern "C" int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, unsigned long *shared, void **stream);
extern "C" const char *cudaGetErrorName(int error);
