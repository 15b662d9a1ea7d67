// convert.h -- reading elements in file formats into tensors
#pragma once
#include "engine/core/tensor.h"
#include "engine/io/bytes.h"

namespace mt {

/// The representation of elements in a file: as in the tensor, as bytes that are true if not 0, or
/// as unsigned integers, which the tensor holds in a wider or in the signed dtype.
enum class Stored : uint8_t { same, boolean, u16, u32, u64 };

/// An element type of files: its representation, the dtype that holds it, and its names in the
/// formats; "" (0 in IDX) if a format does not have it.
struct StoredType {
  Stored stored;
  Dtype dtype;
  const char *npy, *safetensors, *torch, *torch_storage;
  int idx;
  /// The number of bytes of an element in the file.
  int64_t size() const {
    return stored == Stored::u16 ? 2 : stored == Stored::u32 ? 4 : item_size(dtype);
  }
};
/// For writing, the first entry with a dtype is used.
inline constexpr StoredType kStoredTypes[] = {
    {Stored::same, Dtype::f32, "f4", "F32", "torch.float32", "torch.FloatStorage", 0x0d},
    {Stored::same, Dtype::f64, "f8", "F64", "torch.float64", "torch.DoubleStorage", 0x0e},
    {Stored::same, Dtype::f16, "f2", "F16", "torch.float16", "torch.HalfStorage", 0},
    {Stored::same, Dtype::bf16, "", "BF16", "torch.bfloat16", "torch.BFloat16Storage", 0},
    {Stored::same, Dtype::f8_e4m3fn, "", "F8_E4M3", "torch.float8_e4m3fn", "", 0},
    {Stored::same, Dtype::f8_e5m2, "", "F8_E5M2", "torch.float8_e5m2", "", 0},
    {Stored::same, Dtype::i64, "i8", "I64", "torch.int64", "torch.LongStorage", 0},
    {Stored::same, Dtype::i32, "i4", "I32", "torch.int32", "torch.IntStorage", 0x0c},
    {Stored::same, Dtype::i16, "i2", "I16", "torch.int16", "torch.ShortStorage", 0x0b},
    {Stored::same, Dtype::i8, "i1", "I8", "torch.int8", "torch.CharStorage", 0x09},
    {Stored::same, Dtype::u8, "u1", "U8", "torch.uint8", "torch.ByteStorage", 0x08},
    {Stored::boolean, Dtype::b8, "b1", "BOOL", "torch.bool", "torch.BoolStorage", 0},
    {Stored::u16, Dtype::i32, "u2", "U16", "torch.uint16", "", 0},
    {Stored::u32, Dtype::i64, "u4", "U32", "torch.uint32", "", 0},
    {Stored::u64, Dtype::i64, "u8", "U64", "torch.uint64", "", 0}};
static_assert(
    [] {
      uint64_t found = 0;
      for (const StoredType& t : kStoredTypes) found |= uint64_t(1) << int(t.dtype);
      return found + 1 == uint64_t(1) << kDtypes;
    }(),
    "every dtype needs a line in kStoredTypes");

/// For valid data that no tensor can hold: it is left out if the file has several members.
struct CannotHold : Error {
  using Error::Error;
};

/// The first type for which is(type), or null.
const StoredType* find_stored(const auto& is) {
  for (const StoredType& t : kStoredTypes)
    if (is(t)) return &t;
  return nullptr;
}
/// The type that a tensor is written with.
inline const StoredType& stored_by(Dtype dtype) {
  return *find_stored([&](const StoredType& t) { return t.dtype == dtype; });
}

/// The bytes of a contiguous tensor on the CPU.
inline std::string_view bytes_of(const Tensor& x) {
  return {x.data_as<const char>(), size_t(x.numel() * item_size(x.dtype()))};
}

/// Fills x, contiguous on the CPU, with the next bytes. `swapped`: they are big-endian. Throws
/// Error if the bytes end too early, or if a value does not fit.
void read_stored(Bytes&, const StoredType&, const Tensor& x, bool swapped = false);

}  // namespace mt
