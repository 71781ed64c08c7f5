// LLVM's time profiler, of which each thread may have one. Declared in pass_trace.rs.

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/TimeProfiler.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

// Begins to record what takes at least this many microseconds, unless this thread records already.
extern "C" bool fatlink_begin_pass_trace(unsigned shortest) {
  if (llvm::timeTraceProfilerEnabled())
    return false;
  llvm::timeTraceProfilerInitialize(shortest, "");
  return true;
}

// What was recorded, as JSON.
extern "C" char *fatlink_pass_trace() {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::timeTraceProfilerWrite(stream);
  return strdup(text.c_str());
}

extern "C" void fatlink_end_pass_trace() { llvm::timeTraceProfilerCleanup(); }
