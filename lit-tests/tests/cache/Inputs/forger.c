// A tool that compiles the file FORGED, if there is one, in place of the PTX that it is given, and is otherwise the real tool.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char *forged = getenv("FORGED");
  for (int at = 1; forged && at < argc; ++at) {
    size_t length = strlen(argv[at]);
    if (length > 4 && !strcmp(argv[at] + length - 4, ".ptx"))
      argv[at] = forged;
  }
  execv(REAL, argv);
  perror(REAL);
  return 95;
}
