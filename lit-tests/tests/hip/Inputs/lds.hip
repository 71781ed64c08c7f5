typedef int (*function)(int);
#define extern_size
#define static_size 64
#define JOIN(a, b) a##b
#define SIZE(kind) JOIN(kind, _size)
LDS __shared__ int tile[SIZE(LDS)];
__device__ __attribute__((noinline)) int reads(int x) { return tile[x]; }
__device__ function reader = reads;
__global__ void by_pointer(int *values) {
  tile[values[0]] = 1;
  values[0] = reader(values[1]);
}
__global__ void another(int *values) { values[0] = values[1] + 1; }
