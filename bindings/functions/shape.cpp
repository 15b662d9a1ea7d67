// shape.cpp -- tensors in other shapes: views, joins, parts, repetitions
#include "bindings/functions/functions.h"

namespace mt::lua {
namespace {

template <Tensor (*join)(const TensorList&, Dim)> int joined(Args& a) {
  if (tensor_at(a.L, 1)) {  // cat(a, b): b would be taken as the dimension
    const std::string name = a.called();
    fail("{}: argument 1 'tensors' must be a list of tensors, got {}; use mt.{}{{a, b}}", name,
         describe(a.L, 1), name);
  }
  return a.push(join(a.tensors(1), a.position(2)));
}

template <int Dims> Tensor at_least_dims(const Tensor& x) { return at_least(x, Dims); }

/// x['repeat'](x, 2, 3), PyTorch's name: like tile, with a number for every dimension.
Tensor repeat_tensor(const Tensor& x, const Shape& times) {
  if (times.size() < x.dim())
    fail("repeat: {} repeats for the {} dimensions of {}; use tile", times.size(), x.dim(),
         to_string(x.shape()));
  return tile(x, times);
}

Tensor narrow(const Tensor& x, Dim dim, Position position, int64_t length) {
  const int d = wrap_dim("narrow", dim, x.dim());
  if (x.dim() == 0) fail("narrow: a 0-d tensor has no dimension to narrow");
  const int64_t size = x.size(d), first = position.among(size);
  if (first < 0 || length < 0 || length > size || first > size - length)
    fail("narrow: the range from {} of length {} does not lie inside 1..{} (dimension {})",
         position.at + (position >= 0), length, size, d + 1);
  return slice(x, d, first, length);
}

int split_body(Args& a) {
  const Tensor& x = a.tensor(1);
  if (lua_type(a.L, 2) == LUA_TNUMBER) return a.push(split(x, a.integer(2), a.position(3)));
  return a.push(split(x, a.integers(2), a.position(3)));
}

int repeat_interleave_body(Args& a) {
  const auto dim = Arg<std::optional<Dim>>::get(a, 3);
  if (lua_type(a.L, 2) == LUA_TNUMBER)
    return a.push(repeat_interleave(a.tensor(1), a.integer(2), dim));
  return a.push(repeat_interleave(a.tensor(1), Arg<WholeNumbers>::get(a, 2), dim));
}

Tensor pad_tensor(const Tensor& x, const std::vector<int64_t>& sides, Padding mode,
                  std::optional<double> value) {
  if (mode != Padding::constant && value)
    fail("pad: a value is for the mode 'constant', not '{}'", names_of(mode)[int(mode)]);
  return pad(x, sides, mode, value.value_or(0));
}

enum Indexing : bool { ij, xy };
constexpr std::array<const char*, 2> names_of(Indexing) { return {"ij", "xy"}; }

int broadcast_shapes_body(Args& a) {
  Shape shape;
  for (int i = 1; i <= lua_gettop(a.L); ++i)
    shape = broadcast("broadcast_shapes", shape, a.new_shape(i));
  return a.push(shape);
}

Tensor squeeze_some(const Tensor& x, const std::optional<Dims>& dims) {
  if (!dims) return squeeze(x);
  return dims->size() == 1 ? squeeze(x, Dim{(*dims)[0]}) : squeeze(x, *dims);
}
Tensor unsqueeze_some(const Tensor& x, const Dims& dims) {
  return dims.size() == 1 ? unsqueeze(x, Dim{dims[0]}) : unsqueeze(x, dims);
}

#define MT_CAT "Joins tensors along a dimension; the other sizes must be equal."

const Entry kShapeFunctions[] = {
    {"cat([tensors], dim=1)", MT_CAT, takes<TensorList, Dim>(joined<cat>)},
    {"concat([tensors], dim=1)", MT_CAT, takes<TensorList, Dim>(joined<cat>)},
    {"concatenate([tensors], dim=1)", MT_CAT, takes<TensorList, Dim>(joined<cat>)},
    {"stack([tensors], dim=1)", "Joins tensors of one shape along a new dimension.",
     takes<TensorList, Dim>(joined<stack>)},
    {"vstack([tensors])", "Joins tensors as rows, along dimension 1.", bind<vstack>},
    {"hstack([tensors])", "Joins tensors along dimension 2; vectors along 1.", bind<hstack>},
    {"meshgrid([tensors..], indexing='ij')",
     "One tensor for each vector, expanded to the grid of all; {indexing='xy'} exchanges the "
     "first two dimensions.",
     bind<[](const TensorList& list, Indexing how) { return Several{meshgrid(list, how == xy)}; }>},
    {"broadcast_tensors([tensors..])", "Each tensor expanded to the shape that all broadcast to.",
     bind<[](const TensorList& list) {
       if (list.empty()) fail("broadcast_tensors: at least one tensor is needed");
       return Several{broadcast_tensors(list)};
     }>},
    {"broadcast_shapes(..)", "The shape that shapes broadcast to.", broadcast_shapes_body},
};

const Entry kShapeMethods[] = {
    {"view(x, [shape..])",
     "The same elements in another shape, without a copy; one size may be -1 and is inferred.",
     bind<view>},
    {"view_as(x, y)", "x viewed in the shape of y.",
     bind<[](const Tensor& x, const Tensor& y) { return view(x, y.shape()); }>},
    {"reshape(x, [shape..])", "The same elements in another shape, copied if necessary.",
     bind<reshape>},
    {"reshape_as(x, y)", "x in the shape of y, copied if necessary.",
     bind<[](const Tensor& x, const Tensor& y) { return reshape(x, y.shape()); }>},
    {"ravel(x)", "The elements in one dimension, copied if necessary.",
     bind<[](const Tensor& x) { return reshape(x, {-1}); }>},
    {"flatten(x, start_dim=1, end_dim=-1)", "Joins dimensions start_dim to end_dim into one.",
     bind<flatten>},
    {"unflatten(x, dim, sizes)",
     "One dimension split into several; one size may be -1 and is inferred.", bind<unflatten>},
    {"permute(x, [dims..])", "The dimensions in another order.", bind<permute>},
    {"movedim(x, source, destination)", "Dimensions moved to other places; the rest keep order.",
     bind<movedim>},
    {"transpose(x, dim1, dim2)", "Two dimensions exchanged.", bind<transpose>},
    {"swapaxes(x, dim1, dim2)", "Two dimensions exchanged.", bind<transpose>},
    {"swapdims(x, dim1, dim2)", "Two dimensions exchanged.", bind<transpose>},
    {"t(x)", "The transposed matrix; a vector as it is.", bind<t>},
    {"expand(x, [shape..])", "Sizes of 1 repeated without a copy; -1 keeps a size.", bind<expand>},
    {"broadcast_to(x, [shape..])", "Sizes of 1 repeated without a copy.", bind<expand>},
    {"expand_as(x, y)", "x expanded to the shape of y.",
     bind<[](const Tensor& x, const Tensor& y) { return expand(x, y.shape()); }>},
    {"squeeze(x, [dim]=nil)", "x without the dimensions of size 1, or without some of them.",
     bind<squeeze_some>},
    {"unsqueeze(x, [dim])", "x with a new dimension of size 1, or several.", bind<unsqueeze_some>},
    {"atleast_1d(x)", "x with at least one dimension.", bind<at_least_dims<1>>},
    {"atleast_2d(x)", "x with at least two dimensions.", bind<at_least_dims<2>>},
    {"atleast_3d(x)", "x with at least three dimensions.", bind<at_least_dims<3>>},
    {"narrow(x, dim, first, length)", "A view of `length` positions of a dimension.", bind<narrow>},
    {"select(x, dim, index)", "Selects one position of a dimension and removes the dimension.",
     bind<pick>},
    {"split(x, size, dim=1)",
     "A list of views of `size` positions each (the last may be smaller), or of listed sizes.",
     takes<Tensor, std::vector<int64_t>, Dim>(split_body, "tensors")},
    {"split_with_sizes(x, sizes, dim=1)", "A list of views of the listed sizes.",
     bind<[](const Tensor& x, const std::vector<int64_t>& sizes, Dim dim) {
       return split(x, sizes, dim);
     }>},
    {"chunk(x, n, dim=1)", "A list of at most n views of equal size; the last may be smaller.",
     bind<chunk>},
    {"unbind(x, dim=1)", "A list of views, one for each position of a dimension.", bind<unbind>},
    {"diagonal(x, offset=0, dim1=1, dim2=2)",
     "A view of the diagonals of two dimensions, as a last dimension.", bind<diagonal>},
    {"diag(x, diagonal=0)", "A vector as the diagonal of a matrix, or a matrix's diagonal.",
     bind<diag>},
    {"diag_embed(x, offset=0, dim1=-2, dim2=-1)",
     "Zeros whose diagonals are the last dimension of x.", bind<diag_embed>},
    {"as_strided(x, size, stride, storage_offset=nil)",
     "A view of the storage of x with any sizes and strides that stay in bounds.",
     bind<[](const Tensor& x, const Shape& size, const Shape& stride,
             std::optional<int64_t> offset) {
       return as_strided(x, size, stride, offset.value_or(x.offset()));
     }>},
    {"tile(x, [repeats..])", "The tensor repeated along each dimension.", bind<tile>},
    {"repeat(x, [repeats..])", "PyTorch's name for tile, a keyword of Lua: x['repeat'](x, 2, 3).",
     bind<repeat_tensor>},
    {"repeat_interleave(x, repeats, dim=nil)",
     "Each position repeated by a number or a tensor of numbers; without dim x is flattened.",
     takes<Tensor, WholeNumbers, std::optional<Dim>>(repeat_interleave_body)},
    {"flip(x, [dims..])", "The positions of dimensions in reverse.", bind<flip>},
    {"fliplr(x)", "The columns in reverse.", bind<[](const Tensor& x) {
       if (x.dim() < 2) fail("fliplr: a vector has no columns; use flip(1)");
       return flip(x, {1});
     }>},
    {"flipud(x)", "The rows in reverse.", bind<[](const Tensor& x) {
       if (x.dim() == 0) fail("flipud: a 0-d tensor has no rows");
       return flip(x, {0});
     }>},
    {"roll(x, [shifts], [dims]=nil)",
     "Shifted along dimensions; what leaves at the end comes back at the beginning.", bind<roll>},
    {"rot90(x, k=1, [dims]=nil)", "Rotated by k times 90 degrees in the plane of two dimensions.",
     bind<[](const Tensor& x, int64_t k, const Dims& dims) {
       const int n = dims.size();
       if (n != 0 && n != 2) fail("rot90: two dimensions are needed, got {}", n);
       return n == 0 ? rot90(x, k) : rot90(x, k, dims[0], dims[1]);
     }>},
    {"tril(x, diagonal=0)", "x with zeros above a diagonal (0 is the main one, 1 the next above).",
     bind<tril> | kInPlaceToo},
    {"triu(x, diagonal=0)", "x with zeros below a diagonal (0 is the main one, 1 the next above).",
     bind<triu> | kInPlaceToo},
    {"pad(x, [sides], mode='constant', value=nil)",
     "Positions added before and after the last dimension, then the one before it, and so on. "
     "Negative sides crop.",
     bind<pad_tensor>},
};

/// Only a method, because mt.unfold is another function, for images.
const Entry kOnlyMethods[] = {
    {"unfold(x, dim, size, step)",
     "A view of all windows of `size` positions, `step` apart; the last dimension is inside them.",
     bind<unfold>},
    {"storage(x)", "All elements of the memory that x is a view of, in one dimension.",
     bind<storage_of>},
    {"element_size(x)", "Bytes of an element.",
     bind<[](const Tensor& x) { return item_size(x.dtype()); }>},
    {"nelement(x)", "The number of elements.", bind<&Tensor::numel>},
    {"ndimension(x)", "The number of dimensions.", bind<&Tensor::dim>},
};

}  // namespace

void register_shape(Registry& c) {
  c.functions(kShapeFunctions);
  c.both(kShapeMethods);
  c.methods(kOnlyMethods);
}

}  // namespace mt::lua
