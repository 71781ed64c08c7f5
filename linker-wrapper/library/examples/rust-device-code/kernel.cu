// A kernel that calls a device function in Rust.
extern "C" __device__ float scale(float value);

__global__ void scale_all(float *values) {
  values[threadIdx.x] = scale(values[threadIdx.x]);
}
