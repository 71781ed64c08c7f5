// Functions of a newer C library than the one that the programs are linked against. LLVM's archives and libstdc++.a reference
// them, because they were compiled on a newer system. Hidden, so that no shared library binds to them.

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define OURS __attribute__((visibility("hidden")))

// Since glibc 2.32: whether atomic operations may be omitted. Never.
OURS char __libc_single_threaded = 0;

// Since glibc 2.36. getrandom returns up to 256 bytes at once and without interruption.
OURS uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    abort();
  return number;
}

// Since glibc 2.33. Only LLVM's statistics use it; the older call's numbers wrap around at 4 GiB.
OURS struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo old = mallinfo();
#define COPY(field) .field = (unsigned)old.field
  return (struct mallinfo2){COPY(arena),    COPY(ordblks),  COPY(smblks),  COPY(hblks),    COPY(hblkhd),
                            COPY(usmblks),  COPY(fsmblks),  COPY(uordblks), COPY(fordblks), COPY(keepcost)};
}
