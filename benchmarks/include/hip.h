// What the units need of HIP's own headers: they are compiled with -nogpuinc, and nothing launches their kernels.
#pragma once

#define __AMDGCN_WAVEFRONT_SIZE 64
#include <__clang_hip_runtime_wrapper.h>

#define __launch_bounds__(THREADS) __attribute__((amdgpu_flat_work_group_size(1, THREADS)))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// What clang's stubs call.
typedef struct ihipStream_t *hipStream_t;
enum hipError_t { hipSuccess };
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = 0);
extern "C" hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, size_t *, hipStream_t *);

struct Index {
  unsigned x, y, z;
};

__device__ inline Index thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(), __builtin_amdgcn_workitem_id_z()};
}
__device__ inline Index block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()};
}
__device__ inline Index block_size() {
  return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
          __builtin_amdgcn_workgroup_size_z()};
}
#define threadIdx thread_index()
#define blockIdx block_index()
#define blockDim block_size()

__device__ inline unsigned long long atomicAdd(unsigned long long *place, unsigned long long value) {
  return __hip_atomic_fetch_add(place, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
__device__ inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }

// HIP's printf needs its runtime.
__device__ inline int printf(const char *, ...) { return 0; }
__device__ inline void __assert_fail(const char *, const char *, unsigned, const char *) { __builtin_trap(); }
