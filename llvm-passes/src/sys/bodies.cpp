// Writes functions and variables in a form in which equal ones have equal bytes, whatever their names and those of what they refer to.
// Declared in bodies.rs.

#include "numbered.h"

#include "llvm-c/Core.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"

#include <cstddef>
#include <string>
#include <vector>

using namespace llvm;

// LLVM 23 has a class for each form.
static bool isBranch(const Instruction &instruction) {
#if LLVM_VERSION_MAJOR < 23
  return isa<BranchInst>(instruction);
#else
  return isa<UncondBrInst, CondBrInst>(instruction);
#endif
}

namespace {

using VisitBody = void (*)(void *, uint32_t global, const char *bytes, size_t length, const uint32_t *references, size_t count);

// What the next bytes stand for, so that different things never have equal bytes.
enum Tag : uint8_t {
  Again,
  New,
  Absent,
  Global,
  Local,
  Block,
  Assembly,
  Node,
  Text,
  Location,
  OwnSubprogram,
  Subprogram,
  LexicalBlock,
  LexicalBlockFile,
};

// Writes one function or variable. Whatever it does not know makes the body incomparable.
class BodyWriter {
public:
  explicit BodyWriter(const DenseMap<const GlobalValue *, uint32_t> &indices) : indices(indices) {}

  void function(const Function &function) {
    own = &function;
    type(function.getFunctionType());
    number(function.getCallingConv());
    attributes(function.getAttributes());
    number(function.getAlign() ? function.getAlign()->value() : 0);
    text(function.getSection());
    text(function.getPartition());
    const bool isKernel = function.getCallingConv() == CallingConv::PTX_Kernel ||
                          function.getCallingConv() == CallingConv::AMDGPU_KERNEL;
    if (function.hasGC() || function.hasPersonalityFn() || function.hasPrefixData() || function.hasPrologueData())
      comparable = false;
    // Everything else becomes internal.
    if (isKernel) {
      number(function.getLinkage());
      number(function.getVisibility());
      module(*function.getParent());
    }
    annotations(function);
    attachments(function);
    const DISubprogram *subprogram = function.getSubprogram();
    tag(subprogram ? New : Absent);
    if (subprogram)
      describe(*subprogram, !isKernel);
    numberLocals(function);
    number(function.size());
    for (const BasicBlock &block : function) {
      number(block.size());
      for (const Instruction &instruction : block)
        write(instruction);
    }
  }

  void variable(const GlobalVariable &variable) {
    type(variable.getValueType());
    number(variable.getAddressSpace());
    number(variable.isConstant());
    number(variable.isThreadLocal());
    number(variable.isExternallyInitialized());
    number(unsigned(variable.getUnnamedAddr()));
    number(variable.getAlign() ? variable.getAlign()->value() : 0);
    text(variable.getSection());
    text(variable.getPartition());
    attributeSet(variable.getAttributes());
    annotations(variable);
    attachments(variable);
    tag(variable.hasInitializer() ? New : Absent);
    if (variable.hasInitializer())
      constant(variable.getInitializer());
  }

  bool comparable = true;
  std::string bytes;
  std::vector<uint32_t> references;

private:
  void tag(Tag tag) { bytes.push_back(char(tag)); }

  void number(uint64_t number) {
    for (; number >= 0x80; number >>= 7)
      bytes.push_back(char(0x80 | (number & 0x7f)));
    bytes.push_back(char(number));
  }

  void text(StringRef text) {
    number(text.size());
    bytes.append(text.begin(), text.end());
  }

  void integer(const APInt &value) {
    number(value.getBitWidth());
    for (unsigned word = 0; word < value.getNumWords(); ++word)
      number(value.getRawData()[word]);
  }

  // Whether `key` is written for the first time; otherwise its number stands for it.
  template <typename Key> bool isNew(DenseMap<Key, uint32_t> &known, Key key) {
    auto [entry, inserted] = known.try_emplace(key, uint32_t(known.size()));
    tag(inserted ? New : Again);
    if (!inserted)
      number(entry->second);
    return inserted;
  }

  // By structure: the names of types mean nothing.
  void type(Type *type) {
    if (!isNew(types, type))
      return;
    number(type->getTypeID());
    switch (type->getTypeID()) {
    case Type::IntegerTyID:
      return number(type->getIntegerBitWidth());
    case Type::PointerTyID:
      return number(type->getPointerAddressSpace());
    case Type::ArrayTyID:
      number(type->getArrayNumElements());
      return this->type(type->getArrayElementType());
    case Type::FixedVectorTyID:
      number(cast<FixedVectorType>(type)->getNumElements());
      return this->type(cast<FixedVectorType>(type)->getElementType());
    case Type::StructTyID: {
      auto *structure = cast<StructType>(type);
      number(structure->isOpaque());
      number(structure->isPacked());
      number(structure->getNumElements());
      for (Type *element : structure->elements())
        this->type(element);
      return;
    }
    case Type::FunctionTyID:
      number(cast<FunctionType>(type)->isVarArg());
      number(type->getFunctionNumParams());
      this->type(cast<FunctionType>(type)->getReturnType());
      for (Type *parameter : cast<FunctionType>(type)->params())
        this->type(parameter);
      return;
    case Type::TargetExtTyID: {
      auto *target = cast<TargetExtType>(type);
      text(target->getName());
      number(target->getNumTypeParameters());
      for (Type *parameter : target->type_params())
        this->type(parameter);
      number(target->getNumIntParameters());
      for (unsigned parameter : target->int_params())
        number(parameter);
      return;
    }
    case Type::ScalableVectorTyID:
    case Type::TypedPointerTyID:
      comparable = false;
      return;
    default:
      // The others have no parameters.
      return;
    }
  }

  void attribute(const Attribute &attribute) {
    if (attribute.isStringAttribute()) {
      number(0);
      text(attribute.getKindAsString());
      text(attribute.getValueAsString());
      return;
    }
    number(1 + unsigned(attribute.getKindAsEnum()));
    if (attribute.isIntAttribute())
      number(attribute.getValueAsInt());
    else if (attribute.isTypeAttribute() && attribute.getValueAsType())
      type(attribute.getValueAsType());
    else if (!attribute.isEnumAttribute())
      text(attribute.getAsString());
  }

  void attributeSet(AttributeSet set) {
    number(set.getNumAttributes());
    for (const Attribute &one : set)
      attribute(one);
  }

  void attributes(AttributeList list) {
    if (!isNew(attributeLists, (const void *)list.getRawPointer()))
      return;
    number(list.getNumAttrSets());
    for (unsigned index : list.indexes())
      attributeSet(list.getAttributes(index));
  }

  void global(const GlobalValue *global) {
    auto index = indices.find(global);
    if (index == indices.end()) {
      comparable = false;
      return;
    }
    tag(Global);
    auto [slot, inserted] = slots.try_emplace(index->second, uint32_t(slots.size()));
    if (inserted)
      references.push_back(index->second);
    number(slot->second);
  }

  void constant(const Constant *constant) {
    if (const auto *value = dyn_cast<GlobalValue>(constant))
      return global(value);
    if (!isNew(constants, constant))
      return;
    number(constant->getValueID());
    type(constant->getType());
    if (const auto *value = dyn_cast<ConstantInt>(constant))
      return integer(value->getValue());
    if (const auto *value = dyn_cast<ConstantFP>(constant))
      return integer(value->getValueAPF().bitcastToAPInt());
    if (const auto *value = dyn_cast<ConstantDataSequential>(constant))
      return text(value->getRawDataValues());
    if (isa<ConstantAggregateZero, ConstantPointerNull, UndefValue, ConstantTokenNone, ConstantTargetNone>(constant))
      return;
    if (const auto *expression = dyn_cast<ConstantExpr>(constant)) {
      number(expression->getOpcode());
      number(expression->getRawSubclassOptionalData());
      if (const auto *element = dyn_cast<GEPOperator>(expression)) {
        type(element->getSourceElementType());
        if (element->getInRange())
          comparable = false;
      }
    } else if (!isa<ConstantAggregate>(constant)) {
      comparable = false;
      return;
    }
    number(constant->getNumOperands());
    for (const Use &operand : constant->operands())
      this->constant(cast<Constant>(operand));
  }

  void numberLocals(const Function &function) {
    for (const Argument &argument : function.args())
      locals.try_emplace(&argument, uint32_t(locals.size()));
    for (const BasicBlock &block : function) {
      locals.try_emplace(&block, uint32_t(locals.size()));
      for (const Instruction &instruction : block)
        locals.try_emplace(&instruction, uint32_t(locals.size()));
    }
  }

  void value(const Value *value) {
    if (auto local = locals.find(value); local != locals.end()) {
      tag(Local);
      return number(local->second);
    }
    if (const auto *known = dyn_cast<Constant>(value))
      return constant(known);
    if (const auto *assembly = dyn_cast<InlineAsm>(value)) {
      tag(Assembly);
      text(assembly->getAsmString());
      text(assembly->getConstraintString());
      number(assembly->hasSideEffects());
      number(assembly->isAlignStack());
      number(assembly->getDialect());
      number(assembly->canThrow());
      return type(assembly->getFunctionType());
    }
    if (const auto *wrapped = dyn_cast<MetadataAsValue>(value))
      return metadata(wrapped->getMetadata());
    comparable = false;
  }

  void write(const Instruction &instruction) {
    if (instruction.hasDbgRecords())
      comparable = false;
    number(instruction.getOpcode());
    number(instruction.getRawSubclassOptionalData());
    type(instruction.getType());
    state(instruction);
    number(instruction.getNumOperands());
    for (const Use &operand : instruction.operands())
      value(operand);
    attachments(instruction);
    location(instruction.getDebugLoc().get());
  }

  // What an instruction is beside its operands.
  void state(const Instruction &instruction) {
    if (const auto *alloca = dyn_cast<AllocaInst>(&instruction)) {
      type(alloca->getAllocatedType());
      number(alloca->getAlign().value());
      number(alloca->isUsedWithInAlloca());
      number(alloca->isSwiftError());
    } else if (const auto *load = dyn_cast<LoadInst>(&instruction)) {
      memory(load->isVolatile(), load->getAlign(), load->getSyncScopeID(), *load);
      number(unsigned(load->getOrdering()));
    } else if (const auto *store = dyn_cast<StoreInst>(&instruction)) {
      memory(store->isVolatile(), store->getAlign(), store->getSyncScopeID(), *store);
      number(unsigned(store->getOrdering()));
    } else if (const auto *exchange = dyn_cast<AtomicCmpXchgInst>(&instruction)) {
      memory(exchange->isVolatile(), exchange->getAlign(), exchange->getSyncScopeID(), *exchange);
      number(unsigned(exchange->getSuccessOrdering()));
      number(unsigned(exchange->getFailureOrdering()));
      number(exchange->isWeak());
    } else if (const auto *update = dyn_cast<AtomicRMWInst>(&instruction)) {
      memory(update->isVolatile(), update->getAlign(), update->getSyncScopeID(), *update);
      number(unsigned(update->getOrdering()));
      number(update->getOperation());
    } else if (const auto *fence = dyn_cast<FenceInst>(&instruction)) {
      memory(false, Align(1), fence->getSyncScopeID(), *fence);
      number(unsigned(fence->getOrdering()));
    } else if (const auto *compare = dyn_cast<CmpInst>(&instruction)) {
      number(compare->getPredicate());
    } else if (const auto *call = dyn_cast<CallInst>(&instruction)) {
      number(call->getCallingConv());
      number(call->getTailCallKind());
      type(call->getFunctionType());
      attributes(call->getAttributes());
      number(call->getNumOperandBundles());
      for (unsigned at = 0; at < call->getNumOperandBundles(); ++at) {
        OperandBundleUse bundle = call->getOperandBundleAt(at);
        text(bundle.getTagName());
        number(bundle.Inputs.size());
      }
    } else if (const auto *element = dyn_cast<GetElementPtrInst>(&instruction)) {
      type(element->getSourceElementType());
    } else if (const auto *extract = dyn_cast<ExtractValueInst>(&instruction)) {
      numbers(extract->getIndices());
    } else if (const auto *insert = dyn_cast<InsertValueInst>(&instruction)) {
      numbers(insert->getIndices());
    } else if (const auto *shuffle = dyn_cast<ShuffleVectorInst>(&instruction)) {
      number(shuffle->getShuffleMask().size());
      for (int lane : shuffle->getShuffleMask())
        number(uint64_t(int64_t(lane)));
    } else if (const auto *phi = dyn_cast<PHINode>(&instruction)) {
      for (const BasicBlock *block : phi->blocks())
        value(block);
    } else if (!isa<UnaryOperator, BinaryOperator, CastInst, SelectInst, FreezeInst, ExtractElementInst, InsertElementInst,
                    ReturnInst, SwitchInst, UnreachableInst, VAArgInst>(&instruction) &&
               !isBranch(instruction)) {
      comparable = false;
    }
  }

  void numbers(ArrayRef<unsigned> all) {
    number(all.size());
    for (unsigned one : all)
      number(one);
  }

  void memory(bool isVolatile, Align align, SyncScope::ID scope, const Instruction &instruction) {
    number(isVolatile);
    number(align.value());
    // The number of a scope depends on the context.
    SmallVector<StringRef, 8> names;
    instruction.getContext().getSyncScopeNames(names);
    text(scope < names.size() ? names[scope] : "");
  }

  template <typename Of> void attachments(const Of &of) {
    SmallVector<std::pair<unsigned, MDNode *>, 8> all;
    if constexpr (std::is_same_v<Of, Instruction>)
      of.getAllMetadataOtherThanDebugLoc(all);
    else
      of.getAllMetadata(all);
    // The number of a kind depends on the context.
    SmallVector<StringRef, 64> names;
    if (!all.empty())
      of.getContext().getMDKindNames(names);
    for (auto [kind, node] : all) {
      // That of a function is written with it, that of a variable only tells debuggers about it.
      if (kind == LLVMContext::MD_dbg)
        continue;
      tag(Node);
      text(kind < names.size() ? names[kind] : "");
      metadata(node);
    }
    tag(Absent);
  }

  // Lists of the module, such as nvvm.annotations, that say something about a global.
  void annotations(const GlobalObject &global) {
    if (!global.isUsedByMetadata())
      return;
    bool found = false;
    for (const NamedMDNode &list : global.getParent()->named_metadata())
      for (const MDNode *row : list.operands()) {
        if (row->getNumOperands() == 0)
          continue;
        const auto *first = dyn_cast_or_null<ConstantAsMetadata>(row->getOperand(0).get());
        if (!first || first->getValue() != &global)
          continue;
        found = true;
        text(list.getName());
        number(row->getNumOperands());
        for (unsigned at = 1; at < row->getNumOperands(); ++at)
          metadata(row->getOperand(at).get());
      }
    // Something else knows it.
    if (!found)
      comparable = false;
  }

  // What a unit as a whole says about its code.
  void module(const Module &module) {
    text(module.getDataLayoutStr());
    text(module.getTargetTriple().str());
    if (!module.getModuleInlineAsm().empty())
      comparable = false;
    if (const NamedMDNode *flags = module.getModuleFlagsMetadata())
      for (const MDNode *flag : flags->operands())
        metadata(flag);
    tag(Absent);
  }

  void metadata(const Metadata *metadata) {
    if (!metadata)
      return tag(Absent);
    if (const auto *string = dyn_cast<MDString>(metadata)) {
      tag(Text);
      return text(string->getString());
    }
    if (const auto *wrapped = dyn_cast<ValueAsMetadata>(metadata)) {
      tag(Local);
      return value(wrapped->getValue());
    }
    if (const auto *known = dyn_cast<DILocation>(metadata))
      return location(known);
    const auto *tuple = dyn_cast<MDTuple>(metadata);
    if (!tuple) {
      comparable = false;
      return;
    }
    if (!isNew(nodes, metadata))
      return;
    number(tuple->isDistinct());
    number(tuple->getNumOperands());
    for (const MDOperand &operand : tuple->operands())
      this->metadata(operand.get());
  }

  // Where code is in the source, as far as a line table tells.
  void location(const DILocation *location) {
    if (!location)
      return tag(Absent);
    tag(Location);
    if (!isNew(nodes, (const Metadata *)location))
      return;
    number(location->getLine());
    number(location->getColumn());
    number(location->isImplicitCode());
    scope(location->getScope());
    this->location(location->getInlinedAt());
  }

  void scope(const DIScope *scope) {
    if (!isNew(nodes, (const Metadata *)scope))
      return;
    if (const auto *subprogram = dyn_cast<DISubprogram>(scope))
      return describe(*subprogram, !own || subprogram != own->getSubprogram());
    if (const auto *block = dyn_cast<DILexicalBlock>(scope)) {
      tag(LexicalBlock);
      number(block->getLine());
      number(block->getColumn());
      file(block->getFile());
      return this->scope(block->getScope());
    }
    if (const auto *block = dyn_cast<DILexicalBlockFile>(scope)) {
      tag(LexicalBlockFile);
      number(block->getDiscriminator());
      file(block->getFile());
      return this->scope(block->getScope());
    }
    comparable = false;
  }

  // Line tables name functions that are inlined, and so not kernels.
  void describe(const DISubprogram &subprogram, bool named) {
    tag(named ? Subprogram : OwnSubprogram);
    if (named) {
      text(subprogram.getName());
      text(subprogram.getLinkageName());
    }
    number(subprogram.getLine());
    number(subprogram.getScopeLine());
    file(subprogram.getFile());
    const DICompileUnit *unit = subprogram.getUnit();
    number(unit ? unsigned(unit->getEmissionKind()) : 0);
    // It describes kernels by their names.
    if (unit && unit->getEmissionKind() == DICompileUnit::FullDebug)
      comparable = false;
  }

  void file(const DIFile *file) {
    text(file ? file->getFilename() : "");
    text(file ? file->getDirectory() : "");
  }

  const DenseMap<const GlobalValue *, uint32_t> &indices;
  const Function *own = nullptr;
  DenseMap<uint32_t, uint32_t> slots;
  DenseMap<const Value *, uint32_t> locals;
  DenseMap<Type *, uint32_t> types;
  DenseMap<const Constant *, uint32_t> constants;
  DenseMap<const Metadata *, uint32_t> nodes;
  DenseMap<const void *, uint32_t> attributeLists;
};

} // namespace

// Passes the body of every function and variable of a module that can be compared to `visit`: its bytes, and the globals that it refers to,
// by index, in the order in which the bytes number them. Declarations have no body, but a type and attributes. Returns whether the module has
// debug information of any kind.
extern "C" bool fatlink_bodies(LLVMModuleRef raw, void *visitor, VisitBody visit) {
  Module &module = *unwrap(raw);
  std::vector<GlobalValue *> all = fatlink::numberedGlobals(module);
  DenseMap<const GlobalValue *, uint32_t> indices;
  for (uint32_t index = 0; index < all.size(); ++index)
    indices[all[index]] = index;
  for (uint32_t index = 0; index < all.size(); ++index) {
    BodyWriter writer(indices);
    if (const auto *function = dyn_cast<Function>(all[index])) {
      if (function->isIntrinsic())
        continue;
      writer.function(*function);
    } else if (const auto *variable = cast<GlobalVariable>(all[index]); !variable->hasAppendingLinkage()) {
      writer.variable(*variable);
    } else {
      continue;
    }
    if (writer.comparable)
      visit(visitor, index, writer.bytes.data(), writer.bytes.size(), writer.references.data(), writer.references.size());
  }
  return any_of(module.debug_compile_units(), [](const DICompileUnit *unit) { return unit->getEmissionKind() != DICompileUnit::NoDebug; });
}
