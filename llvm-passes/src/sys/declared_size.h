// How large a variable is for the units that only declare it.

#pragma once

#include "llvm/IR/Constants.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Module.h"

namespace fatlink {

// The size in bytes, 0 if the type does not say it. The address sanitizer appends a zone to a variable that it guards; its description of the
// variable (LLVM's AddressSanitizer.cpp: address, size, size with the zone) has the size without.
inline uint64_t declaredSize(const llvm::GlobalVariable &variable) {
  const llvm::Module &module = *variable.getParent();
  const llvm::GlobalVariable *description = module.getNamedGlobal(("__asan_global_" + variable.getName()).str());
  if (description && description->hasInitializer())
    if (const auto *fields = llvm::dyn_cast<llvm::ConstantStruct>(description->getInitializer()))
      if (fields->getNumOperands() > 2)
        if (const auto *size = llvm::dyn_cast<llvm::ConstantInt>(fields->getOperand(1)))
          return size->getZExtValue();
  llvm::Type *type = variable.getValueType();
  return type->isSized() ? module.getDataLayout().getTypeAllocSize(type).getFixedValue() : 0;
}

} // namespace fatlink
