// One unit of two, for every release of clang that knows `ompx_bare`: such a kernel needs no device runtime. That of the first calls a function of
// the second.
#pragma omp begin declare target
int other(int x);
#pragma omp end declare target

#ifdef SECOND
#pragma omp begin declare target
int variable = 5;
int other(int x) { return 3 * x + variable; }
#pragma omp end declare target
#else
int main(void) {
  int value = 2;
#pragma omp target teams ompx_bare num_teams(1) thread_limit(1) map(tofrom : value)
  value = other(value);
}
#endif
