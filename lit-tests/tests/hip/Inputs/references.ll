; Offload entries as clang writes them for a surface reference (type 2, extern) and a normalized texture reference (type 3).
target triple = "x86_64-pc-linux-gnu"
%entry = type { i64, i16, i16, i32, ptr, ptr, i64, i64, ptr }
@output = global i32 0
@input = global i32 0
@output_name = private constant [7 x i8] c"output\00"
@input_name = private constant [6 x i8] c"input\00"
@output_entry = weak constant %entry { i64 0, i16 1, i16 4, i32 10, ptr @output, ptr @output_name, i64 4, i64 2, ptr null }, section "llvm_offload_entries", align 8
@input_entry = weak constant %entry { i64 0, i16 1, i16 4, i32 35, ptr @input, ptr @input_name, i64 4, i64 3, ptr null }, section "llvm_offload_entries", align 8
