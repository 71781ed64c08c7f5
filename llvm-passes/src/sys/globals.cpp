// What LLVM-C does not offer for global variables. Declared in globals.rs.

#include "llvm-c/Core.h"
#include "llvm/IR/GlobalVariable.h"

using namespace llvm;

// Keeps sanitizers from adding red zones or tags to a variable whose layout others read.
extern "C" void fatlink_exclude_from_sanitizers(LLVMValueRef raw) {
  GlobalVariable *variable = unwrap<GlobalVariable>(raw);
  GlobalValue::SanitizerMetadata metadata;
  if (variable->hasSanitizerMetadata())
    metadata = variable->getSanitizerMetadata();
  metadata.NoAddress = true;
  metadata.NoHWAddress = true;
  variable->setSanitizerMetadata(metadata);
}
