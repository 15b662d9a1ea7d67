// cuda_signature.h -- what a text of CUDA C says of its kernels: names, parameters, constants
//
// The text is read as a compiler's first phases would (comments, strings, spliced lines), without
// the preprocessor: a name may stand behind `#if`. What a type really is says the compiler, in the
// form of the demangler: `parse_parameters` reads both.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base.h"

namespace mt {

/// What a parameter of a kernel takes.
struct CudaType {
  enum Kind { unknown, boolean, integer, floating, pointer, accessor };
  Kind kind = unknown;
  std::string text;            // as it was written
  std::string element;         // of a pointer or accessor: the name of its tensors' dtype
  int bytes = 0;               // of the value; of a pointer's element
  int lanes = 1;               // of a pointer: numbers to an element, 4 of float4
  bool is_signed = true;       // of an integer
  bool read_only = false;      // of a pointer or accessor: to const
  int rank = 0;                // of an accessor, `mt::tensor2<float>`: how many dimensions
  std::vector<int64_t> sizes;  // of `float (*f)[3]`: the sizes of all dimensions but the first
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
  bool reads_files = false;  // some #include is not of the form <name>
  bool includes = false;     // there is an #include
  bool says_where = false;   // __LINE__, __FILE__ or assert
  bool prints = false;       // printf
  bool hides = false;        // some directive names __global__: there may be more kernels
  bool accessors = false;    // mt::tensor1 .. mt::tensor4
  /// Functions without __device__ or __global__, those with it, and PyTorch's and the runtime's words.
  std::vector<std::string> host_functions, device_functions, host_words;
};

/// Never fails: what cannot be read is left out.
CudaText read_cuda(std::string_view source);
/// The parameters of "(float*, float const*, float (*) [3], int)", or of a declaration with names;
/// the parentheses are those at the end of the text.
std::vector<CudaParameter> parse_parameters(std::string_view text);

}  // namespace mt
