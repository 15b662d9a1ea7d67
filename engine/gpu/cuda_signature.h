// cuda_signature.h -- parses kernel names, parameters and constants in CUDA C
//
// The text is processed like the first phases of a compiler (comments, strings, spliced lines), but
// without the preprocessor: a name may be after `#if`. The actual types come from the compiler, in
// the form of the demangler: `parse_parameters` parses both.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base.h"

namespace mt {

/// The type of a kernel's parameter.
struct CudaType {
  enum Kind { unknown, boolean, integer, floating, pointer, accessor };
  Kind kind = unknown;
  std::string text;            // as written in the source
  std::string element;         // of a pointer or accessor: the dtype name of its tensors
  int bytes = 0;               // of the value; of a pointer's element
  int lanes = 1;               // of a pointer: numbers per element, 4 for float4
  bool is_signed = true;       // of an integer
  bool read_only = false;      // of a pointer or accessor: the element is const
  int rank = 0;                // of an accessor, `mt::tensor2<float>`: the number of dimensions
  std::vector<int64_t> sizes;  // of `float (*f)[3]`: the sizes of all dimensions except the first
};
struct CudaParameter {
  std::string name;  // may be empty
  CudaType type;
};
struct CudaFunction {
  std::string name;
  bool is_template = false;
  std::vector<CudaParameter> parameters;
};
/// A `__constant__` or `__device__` variable.
struct CudaVariable {
  std::string name;
  CudaType type;  // of its elements
};
struct CudaText {
  std::vector<CudaFunction> kernels;  // in the order of the text; a template is one
  std::vector<CudaVariable> variables;
  bool reads_files = false;    // an #include is not of the form <name>
  bool includes = false;       // there is an #include
  bool says_where = false;     // __LINE__, __FILE__ or assert
  bool prints = false;         // printf
  bool hides = false;          // a directive contains __global__: there may be more kernels
  bool accessors = false;      // mt::tensor1 .. mt::tensor4
  bool has_host_code = false;  // a name of PyTorch or of CUDA's runtime
};

/// Parses a source. Never fails: parts that cannot be parsed are skipped.
CudaText read_cuda(std::string_view source);
/// The parameters of "(float*, float const*, float (*) [3], int)", or of a declaration with names;
/// the parentheses are the last ones of the text.
std::vector<CudaParameter> parse_parameters(std::string_view text);

}  // namespace mt
