// Heat spreading over the plate: a five-point stencil, tiled in dynamic shared memory.
#include "reduce.cuh"

constexpr int tile = 16;
constexpr int padded = tile + 2; // a rim of one cell around the tile

// Same name as in particles.cu on purpose: two variables, which the compiler must keep apart.
static __device__ unsigned long long work_done;

// Ahead of the kernels: clang 22 names a static device variable by whether the host reads it, and
// must have seen that before it compiles the first use on the device.
unsigned long long cells_updated() {
  unsigned long long count = 0;
  check_cuda(cudaMemcpyFromSymbol(&count, work_done, sizeof count), "read diffuse.cu's work_done");
  return count;
}

// Heat does not leave the plate: beyond the rim lies a copy of the rim.
static __device__ double heat_at(const double *heat, int x, int y) {
  int last = plate.width - 1;
  return heat[min(max(y, 0), last) * plate.width + min(max(x, 0), last)];
}

static __global__ void diffuse_tile(const double *from, double *to) {
  extern __shared__ double scratch[];
  int left = blockIdx.x * tile - 1, top = blockIdx.y * tile - 1;
  int thread = threadIdx.y * tile + threadIdx.x;
  for (int i = thread; i < padded * padded; i += tile * tile)
    scratch[i] = heat_at(from, left + i % padded, top + i / padded);
  __syncthreads();

  int x = left + 1 + threadIdx.x, y = top + 1 + threadIdx.y;
  if (x >= plate.width || y >= plate.width)
    return;
  const double *cell = &scratch[(threadIdx.y + 1) * padded + threadIdx.x + 1];
  double neighbours = cell[-1] + cell[1] + cell[-padded] + cell[padded];
  to[y * plate.width + x] = *cell + plate.conductivity * (neighbours - 4 * *cell);
  atomicAdd(&work_done, 1ull);
}

void diffuse(const double *from, double *to, int width) {
  int tiles = (width + tile - 1) / tile;
  diffuse_tile<<<dim3(tiles, tiles), dim3(tile, tile), padded * padded * sizeof(double)>>>(from, to);
  check_cuda(cudaGetLastError(), "launch diffuse_tile");
}

double total_heat(const double *heat, int cells) { return reduce_on_device<Sum>(heat, cells); }

double peak_heat(const double *heat, int cells) { return reduce_on_device<Max>(heat, cells); }
