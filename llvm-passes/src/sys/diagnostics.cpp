// The function and the source location of a diagnostic, which LLVM-C gives only as a part of the text. Declared in
// diagnostics.rs.

#include "llvm-c/Core.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instruction.h"

#include <cstddef>
#include <cstring>

using namespace llvm;

namespace {

// Mirrored in diagnostics.rs. The texts are freed by LLVMDisposeMessage; null if unknown.
struct RawLocation {
  char *function;
  char *location;
  // The start of LLVM-C's description that the other fields repeat.
  char *prefix;
};

static_assert(sizeof(RawLocation) == 24 && alignof(RawLocation) == 8);
static_assert(offsetof(RawLocation, function) == 0);
static_assert(offsetof(RawLocation, location) == 8);
static_assert(offsetof(RawLocation, prefix) == 16);

char *copyOf(StringRef text) { return strdup(text.str().c_str()); }

// The location of the diagnostic or, without one, the first line of the function.
char *locationOf(const DiagnosticInfoWithLocationBase &info) {
  if (info.isLocationAvailable())
    return copyOf(info.getLocationStr());
  const DISubprogram *function = info.getFunction().getSubprogram();
  if (!function)
    return nullptr;
  return copyOf((function->getFilename() + ":" + Twine(function->getLine())).str());
}

// LLVM is compiled without run-time types, so the class follows from the kind.
const DiagnosticInfoWithLocationBase *withLocation(const DiagnosticInfo *info) {
  switch (info->getKind()) {
  case DK_GenericWithLoc:
  case DK_RegAllocFailure:
  case DK_ResourceLimit:
  case DK_StackSize:
  case DK_LegalizationFailure:
  case DK_OptimizationRemark:
  case DK_OptimizationRemarkMissed:
  case DK_OptimizationRemarkAnalysis:
  case DK_OptimizationRemarkAnalysisFPCommute:
  case DK_OptimizationRemarkAnalysisAliasing:
  case DK_OptimizationFailure:
  case DK_MachineOptimizationRemark:
  case DK_MachineOptimizationRemarkMissed:
  case DK_MachineOptimizationRemarkAnalysis:
  case DK_Unsupported:
  case DK_MisExpect:
    return static_cast<const DiagnosticInfoWithLocationBase *>(info);
  default:
    return nullptr;
  }
}

} // namespace

// Whether -pass-remarks= or one of its kin names the pass of a remark. A handler of LLVM-C gets all of them.
extern "C" bool fatlink_is_requested_remark(LLVMDiagnosticInfoRef raw) {
  const DiagnosticInfo *info = unwrap(raw);
  const int kind = info->getKind();
  const bool isRemark = (kind >= DK_FirstRemark && kind <= DK_LastRemark) ||
                        (kind >= DK_FirstMachineRemark && kind <= DK_LastMachineRemark);
  return isRemark && static_cast<const DiagnosticInfoOptimizationBase *>(info)->isEnabled();
}

extern "C" void fatlink_location_of(LLVMDiagnosticInfoRef raw, RawLocation *result) {
  const DiagnosticInfo *info = unwrap(raw);
  *result = {nullptr, nullptr, nullptr};
  if (const auto *located = withLocation(info)) {
    result->function = copyOf(located->getFunction().getName());
    result->location = locationOf(*located);
    result->prefix = copyOf(located->getLocationStr() + ": ");
  } else if (info->getKind() == DK_InlineAsm) {
    const Instruction *call = static_cast<const DiagnosticInfoInlineAsm *>(info)->getInstruction();
    if (call && call->getFunction())
      result->function = copyOf(call->getFunction()->getName());
  }
}
