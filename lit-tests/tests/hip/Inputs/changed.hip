// A kernel that nothing else depends on.
#include "hip.h"

__global__ void changed(int *out) { out[0] = CHANGED; }
