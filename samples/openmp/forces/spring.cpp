// The pull of the two neighbours; how strong it is, main.cpp's settings say.
#include "../device.h"

double spring(double left, double here, double right) { return settings.stiffness * (left - 2 * here + right); }
