// common.cpp -- what the files of linalg share: checks, names for messages, packed results
#include "engine/linalg/common.h"
#include "engine/core/host.h"

namespace mt::linalg {

void check_matrices(const char* name, const Tensor& x) {
  if (x.dim() < 2)
    fail("{}: a matrix, or a batch of them, is needed, got {}", name, to_string(x.shape()));
  if (!is_float(x.dtype()))
    fail("{}: {} matrices have no fractions; use x:float()", name, dtype_name(x.dtype()));
  if (is_half(x.dtype()))
    fail("{}: {} is not for this; use x:float()", name, dtype_name(x.dtype()));
  if (&x.device() != &cpu_device())
    fail("{}: runs on the CPU only, this tensor is on {}; use x:cpu()", name, x.device().name);
  if (rows_of(x) > lapack::kMaxSide || columns_of(x) > lapack::kMaxSide)
    fail("{}: {} is beyond LAPACK; a side has at most {} elements", name, to_string(x.shape()),
         lapack::kMaxSide);
}

void check_square(const char* name, const Tensor& x) {
  check_matrices(name, x);
  if (rows_of(x) != columns_of(x))
    fail("{}: square matrices are needed, got {}", name, to_string(x.shape()));
}

void check_workspace(const char* name, int64_t side) {
  if (side > lapack::kMaxSquare)
    fail("{}: a matrix of {} rows and columns is beyond LAPACK; at most {}", name, side,
         lapack::kMaxSquare);
}

Shape batch_of(const Tensor& x, int n) { return Shape(x.impl()->size, x.dim() - n); }

std::string which(const Shape& batch, int64_t i) {
  if (batch.size() == 0) return "the matrix";
  Shape index = batch;
  for (int d = batch.size() - 1; d >= 0; --d)
    index[d] = i % batch[d] + host.index_base, i /= batch[d];
  if (batch.size() == 1) return fmt::format("matrix {} of the batch", index[0]);
  return fmt::format("matrix ({}) of the batch", fmt::join(index.begin(), index.end(), ", "));
}

int64_t first_failed(const std::vector<int>& info) {
  for (size_t i = 0; i < info.size(); ++i)
    if (info[i] != 0) return int64_t(i);
  return -1;
}

Tensor reciprocal_or_zero(const Tensor& x) {
  const Tensor none = eq(x, 0.0);
  return where(none, Tensor(0.0), reciprocal(where(none, Tensor(1.0), x)));
}

Tensor pack(const Shape& batch, const std::vector<Tensor>& parts) {
  std::vector<Tensor> flat;
  for (const Tensor& part : parts) {
    int64_t n = 1;
    for (int d = batch.size(); d < part.dim(); ++d) n *= part.size(d);
    flat.push_back(reshape(part, with(batch, n)));
  }
  return cat(flat, -1);
}

Tensor Unpack::next(std::initializer_list<int64_t> shape) {
  Shape size = batch_of(packed, 1);
  int64_t n = 1;
  for (int64_t side : shape) size.push(side), n *= side;
  const Tensor part = slice(packed, -1, at, n);
  at += n;
  return reshape(part, size);
}

}  // namespace mt::linalg
