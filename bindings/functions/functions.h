// functions.h -- common parts of this folder: adding entries, positions, registration
//
// Each file has the functions of one subject: a table of entries (signature, help, body) and the
// bodies. Tables of methods are also functions of the module, unless the registration says otherwise.
#pragma once
#include <deque>
#include <string>

#include "bindings/core/bind.h"
#include "bindings/core/module.h"
#include "bindings/core/registry.h"
#include "engine/core/device.h"
#include "engine/ops/reduce.h"

namespace mt {
struct KernelArgument;
struct LaunchSize;
}  // namespace mt
namespace mt::lua {

/// The last options of every constructor (dtype, device, requires_grad), from argument i on.
struct NewTensorOptions {
  Dtype dtype;
  const Device& device;
  bool requires_grad;
  NewTensorOptions(const Args& a, int i, Dtype fallback, const Device& place = default_device());
  int push(const Args&, const Tensor&) const;
};
/// For zeros(shape, ..), zeros_like(x, ..), x:new_zeros(shape, ..): the shape and options of the
/// new tensor; `between` more arguments come before the options.
enum class Form { plain, like, of };
struct NewTensor : NewTensorOptions {
  Shape shape;
  NewTensor(const Args& a, Form form, int between = 0, Dtype fallback = default_dtype());
};
#define MT_SHAPED "dtype=nil, device='cpu', requires_grad=false"
#define MT_LIKE "dtype=nil, device=nil, requires_grad=false"

/// Throws Error for an input with another dtype than a float weight, as in PyTorch. Other products are promoted;
/// with a weight, promotion would make a whole network compute in the input's dtype unnoticed.
inline void check_same_dtype(const Tensor& input, const Tensor& weight) {
  if (!input.defined() || !weight.defined() || input.dtype() == weight.dtype()) return;
  if (!is_float(weight.dtype())) return;
  const char *from = dtype_name(input.dtype()), *to = dtype_name(weight.dtype());
  if (is_float(input.dtype()))
    fail("the input is {}, the weight {}; use x:to('{}'), or net:to('{}')", from, to, to, from);
  fail("the input is {}, the weight {}; use x:to('{}')", from, to, to);
}

/// Pushes an integer of a file: as the text of its digits if a double would round it.
inline void push_whole(lua_State* L, int64_t n) {
  const auto x = double(n);
  if (x < 0x1p63 && int64_t(x) == n) lua_pushnumber(L, x);
  else push_text(L, std::to_string(n));
}

/// The size of a launch: grid and block in x, y, z are the arguments from 2 on.
LaunchSize launch_size(const Args&);
/// The arguments from i on as those of a launch.
std::vector<KernelArgument> launch_arguments(const Args&, int i);
/// The tensors among the arguments from i on.
TensorList tensors_from(const Args&, int i);
/// On a worker's thread: throws an error if the loader no longer needs the batch.
void check_wanted();

/// The subjects in their order; register_NAME registers the functions of its file.
#define MT_SUBJECTS(SUBJECT)                    \
  SUBJECT(tensor, "About one tensor")           \
  SUBJECT(create, "Making tensors")             \
  SUBJECT(cuda, "Page-locked memory")           \
  SUBJECT(random, "Random numbers")             \
  SUBJECT(elementwise, "Elementwise")           \
  SUBJECT(index, "Positions")                   \
  SUBJECT(shape, "Shapes")                      \
  SUBJECT(reduce, "Reductions")                 \
  SUBJECT(sort, "Sorting and scanning")         \
  SUBJECT(product, "Products")                  \
  SUBJECT(linalg, "Linear algebra")             \
  SUBJECT(fft, "Short-time Fourier transforms") \
  SUBJECT(conv, "Convolution and pooling")      \
  SUBJECT(neural, "Networks")                   \
  SUBJECT(gradient, "Gradients")                \
  SUBJECT(mixed, "Mixed precision")             \
  SUBJECT(cuda_kernel, "CUDA C")                \
  SUBJECT(print, "Printing")
#define MT_DECLARE(name, title) void register_##name(Registry&);
MT_SUBJECTS(MT_DECLARE)
#undef MT_DECLARE

/// Each adds the C functions of a part of the Lua library to the table on top of the stack.
using AddFunctions = void(lua_State* L);
AddFunctions add_compile, add_cuda, add_cuda_kernel, add_dist, add_dist_parts, add_fft, add_files,
    add_formats, add_gradient, add_grid_kernel, add_linalg, add_loader, add_optim, add_profile,
    add_record, add_replay, add_tokenizer, add_watch, add_workers;
void open_markers(lua_State* L);    // mt.newaxis, mt.ellipsis
void open_operators(lua_State* L);  // x + y, -x

// ---- operations over one, two and three spatial dimensions as one entry ---------------------------

/// Entries for the ranks first .. last. In the texts # is the rank, and
/// <length|height x width|depth x height x width> the part for it.
struct RankedEntry {
  const char *signature, *doc;
  Body body;
  int first = 1, last = 3;
};

inline std::string text_of_rank(const char* pattern, int rank) {
  std::string text;
  int part = 0;  // inside <a|b|c>: 1, 2 or 3
  for (const char* c = pattern; *c; ++c) {
    if (*c == '<') part = 1;
    else if (*c == '>') part = 0;
    else if (*c == '|' && part) ++part;
    else if (!part || part == rank) text += *c == '#' ? char('0' + rank) : *c;
  }
  return text;
}

/// Calls add(const Entry&) for each rank of each entry.
void add_ranks(const auto& list, const auto& add) {
  static std::deque<OwnedEntry> entries;
  for (const RankedEntry& e : list)
    for (int rank = e.first; rank <= e.last; ++rank)
      add(entries.emplace_back(text_of_rank(e.signature, rank), text_of_rank(e.doc, rank), e.body)
              .entry);
}

}  // namespace mt::lua
