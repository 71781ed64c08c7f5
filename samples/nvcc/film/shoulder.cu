// A curve that bends bright levels down.
#include "../device.cuh"

__device__ unsigned shoulder_curve(unsigned level) { return level - level * level / (2 * white); }
