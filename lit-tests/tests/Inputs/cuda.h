// What the compiler itself needs of CUDA's headers, which take more than a second to read in each compilation of a file, for the host and for
// every GPU. Files that use more are compiled with all of them.
#ifndef TESTS_CUDA_H
#define TESTS_CUDA_H

#define __constant__ __attribute__((constant))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __noinline__ __attribute__((noinline))
#define __shared__ __attribute__((shared))

struct uint3 {
  unsigned x, y, z;
  __device__ uint3(int x, int y, int z) : x(x), y(y), z(z) {}
};
#define threadIdx uint3(__nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_tid_y(), __nvvm_read_ptx_sreg_tid_z())
#define blockDim uint3(__nvvm_read_ptx_sreg_ntid_x(), __nvvm_read_ptx_sreg_ntid_y(), __nvvm_read_ptx_sreg_ntid_z())

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern "C" int cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, unsigned long shared, void *stream);
extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, unsigned long shared = 0, void *stream = nullptr);
extern "C" unsigned __cudaPopCallConfiguration(dim3 *grid, dim3 *block, unsigned long *shared, void **stream);
extern "C" const char *cudaGetErrorName(int error);

extern "C" __device__ int printf(const char *format, ...);
inline __device__ int atomicAdd(int *place, int value) { return __nvvm_atom_add_gen_i(place, value); }
inline __device__ unsigned atomicAdd(unsigned *place, unsigned value) { return __nvvm_atom_add_gen_i((int *)place, value); }
inline __device__ float atomicAdd(float *place, float value) { return __nvvm_atom_add_gen_f(place, value); }
inline __device__ int atomicExch(int *place, int value) { return __nvvm_atom_xchg_gen_i(place, value); }

#endif
