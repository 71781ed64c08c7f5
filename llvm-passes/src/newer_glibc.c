// What LLVM's archives and libstdc++.a want of a newer C library than the one that the programs are linked against:
// they were compiled where it was there. Hidden, so that no shared library ever sees these in place of its own.

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define OURS __attribute__((visibility("hidden")))

// Of glibc 2.32: whether atomic operations may be left out. Never.
OURS char __libc_single_threaded = 0;

// Of 2.36. Four bytes come whole or not at all, and without an interruption.
OURS uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    abort();
  return number;
}

// Of 2.33, and wanted for LLVM's statistics alone: beyond 4 GiB the older call's numbers begin again.
OURS struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo old = mallinfo();
#define COPY(field) .field = (unsigned)old.field
  return (struct mallinfo2){COPY(arena),    COPY(ordblks),  COPY(smblks),  COPY(hblks),    COPY(hblkhd),
                            COPY(usmblks),  COPY(fsmblks),  COPY(uordblks), COPY(fordblks), COPY(keepcost)};
}
