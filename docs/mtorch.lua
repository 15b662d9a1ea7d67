---@meta mtorch
-- Stubs for the Lua language server, made by scripts/reference.lua.

---@alias mt.Dtype 'float32'|'float64'|'float16'|'bfloat16'|'int64'|'int32'|'uint8'|'bool'

---@class mt.Generator

---@class mt.Tensor
---@field shape integer[]
---@field dtype mt.Dtype
---@field device string
---@field grad? mt.Tensor
---@field requires_grad boolean
---@field is_leaf boolean
---@field ndim integer
---@field T mt.Tensor
---@field mT mt.Tensor
---@field [any] any
---@operator add(mt.Tensor|number): mt.Tensor
---@operator sub(mt.Tensor|number): mt.Tensor
---@operator mul(mt.Tensor|number): mt.Tensor
---@operator div(mt.Tensor|number): mt.Tensor
---@operator pow(mt.Tensor|number): mt.Tensor
---@operator mod(mt.Tensor|number): mt.Tensor
---@operator unm: mt.Tensor
---@operator len: integer
local Tensor = {}

local mt = {}

mt.linalg = {}
mt.nn = {}
mt.optim = {}
mt.data = {}
mt.plot = {}
mt.cuda = {}

--- The number at a position, x:at(i, j): fast, outside the graph.
---@param ... any
---@return any ...
function Tensor:at(...) end

--- Adds to .grad of every leaf that x was computed from. Uses the graph up unless retain_graph.
---@param gradient? mt.Tensor
---@param retain_graph? boolean default false
---@param create_graph? boolean default false
---@return mt.Tensor ...
function Tensor:backward(gradient, retain_graph, create_graph) end

--- The same data, outside the graph.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.detach(x) end

--- The same data, outside the graph.
---@return mt.Tensor ...
function Tensor:detach() end

--- The number of dimensions.
---@return integer ...
function Tensor:dim() end

--- Whether the elements lie in row-major order without gaps.
---@return boolean ...
function Tensor:is_contiguous() end

--- The number in a tensor of one element; a boolean for bool.
---@return any ...
function Tensor:item() end

--- The number of elements.
---@param x mt.Tensor
---@return integer ...
function mt.numel(x) end

--- The number of elements.
---@return integer ...
function Tensor:numel() end

--- Asks for a gradient (or no longer); returns x.
---@param wanted? boolean default true
---@return mt.Tensor ...
function Tensor:requires_grad_(wanted) end

--- The shape as a list, or the size of one dimension.
---@param dim? integer|integer[]
---@return any ...
function Tensor:size(dim) end

--- Where the tensor begins in its storage, in elements.
---@return integer ...
function Tensor:storage_offset() end

--- How many elements apart neighbours lie, for each dimension or one.
---@param dim? integer|integer[]
---@return any ...
function Tensor:stride(dim) end

--- Nested lists of numbers (booleans for bool); a number for a 0-d tensor.
---@return any ...
function Tensor:tolist() end

--- Drops the gradient (sets it to nil); returns x.
---@return mt.Tensor ...
function Tensor:zero_grad_() end

--- x as bfloat16.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.bfloat16(x) end

--- x as bfloat16.
---@return mt.Tensor ...
function Tensor:bfloat16() end

--- x as bool: true where it is not 0.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.bool(x) end

--- x as bool: true where it is not 0.
---@return mt.Tensor ...
function Tensor:bool() end

--- x as uint8; floats outside are held at 0 and 255, NaN is 0.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.byte(x) end

--- x as uint8; floats outside are held at 0 and 255, NaN is 0.
---@return mt.Tensor ...
function Tensor:byte() end

--- A copy, inside the graph.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.clone(x) end

--- A copy, inside the graph.
---@return mt.Tensor ...
function Tensor:clone() end

--- x itself if it is contiguous, else a copy that is.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.contiguous(x) end

--- x itself if it is contiguous, else a copy that is.
---@return mt.Tensor ...
function Tensor:contiguous() end

--- Writes source, broadcast and converted, into x.
---@param x mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function mt.copy_(x, source) end

--- Writes source, broadcast and converted, into x.
---@param source mt.Tensor
---@return mt.Tensor ...
function Tensor:copy_(source) end

--- x in the memory of the CPU.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.cpu(x) end

--- x in the memory of the CPU.
---@return mt.Tensor ...
function Tensor:cpu() end

--- x in the memory of the first GPU.
---@return mt.Tensor ...
function Tensor:cuda() end

--- x as float64.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.double(x) end

--- x as float64.
---@return mt.Tensor ...
function Tensor:double() end

--- A tensor whose elements are not set.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.empty(shape, dtype, device, requires_grad) end

--- The same shape; the elements are not set.
---@param x mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.empty_like(x, dtype, device, requires_grad) end

--- The same shape; the elements are not set.
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:empty_like(dtype, device, requires_grad) end

--- A matrix with ones on the diagonal.
---@param n integer
---@param m? integer
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.eye(n, m, dtype, device, requires_grad) end

--- Sets every element, to a number or a 0-d tensor.
---@param x mt.Tensor
---@param value mt.Tensor|number
---@return mt.Tensor ...
function mt.fill_(x, value) end

--- Sets every element, to a number or a 0-d tensor.
---@param value mt.Tensor|number
---@return mt.Tensor ...
function Tensor:fill_(value) end

--- x as float32.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.float(x) end

--- x as float32.
---@return mt.Tensor ...
function Tensor:float() end

--- A copy of a string's bytes as elements; the size must fit the shape exactly.
---@param data number|boolean|table|mt.Tensor
---@param dtype? mt.Dtype
---@param shape? integer|integer[]
---@return mt.Tensor ...
function mt.frombuffer(data, dtype, shape) end

--- A tensor filled with a value; the shape is a list.
---@param shape integer|integer[]
---@param value number|boolean
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.full(shape, value, dtype, device, requires_grad) end

--- The same shape, filled with a value.
---@param x mt.Tensor
---@param value number
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.full_like(x, value, dtype, device, requires_grad) end

--- The same shape, filled with a value.
---@param value number
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:full_like(value, dtype, device, requires_grad) end

--- The type of numbers without a dtype.
---@return mt.Tensor ...
function mt.get_default_dtype() end

--- x as float16.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.half(x) end

--- x as float16.
---@return mt.Tensor ...
function Tensor:half() end

--- x as int32; floats outside are held at its ends, NaN is 0.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.int(x) end

--- x as int32; floats outside are held at its ends, NaN is 0.
---@return mt.Tensor ...
function Tensor:int() end

--- Whether a value is a tensor.
---@param ... any
---@return boolean ...
function mt.is_tensor(...) end

--- n numbers at equal distances, both ends included.
---@param first number
---@param last number
---@param n integer
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.linspace(first, last, n, dtype, device, requires_grad) end

--- base to the power of n exponents at equal distances, both ends included.
---@param first number
---@param last number
---@param n integer
---@param base? table default 10
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.logspace(first, last, n, base, dtype, device, requires_grad) end

--- x as int64; what lies outside is held at its ends, NaN is 0.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.long(x) end

--- x as int64; what lies outside is held at its ends, NaN is 0.
---@return mt.Tensor ...
function Tensor:long() end

--- A tensor like x of another shape, not set.
---@param x mt.Tensor
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.new_empty(x, shape, dtype, device, requires_grad) end

--- A tensor like x of another shape, not set.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:new_empty(shape, dtype, device, requires_grad) end

--- A tensor like x of another shape, filled.
---@param x mt.Tensor
---@param shape integer|integer[]
---@param value number
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.new_full(x, shape, value, dtype, device, requires_grad) end

--- A tensor like x of another shape, filled.
---@param shape integer|integer[]
---@param value number
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:new_full(shape, value, dtype, device, requires_grad) end

--- Ones with the dtype and device of x.
---@param x mt.Tensor
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.new_ones(x, shape, dtype, device, requires_grad) end

--- Ones with the dtype and device of x.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:new_ones(shape, dtype, device, requires_grad) end

--- A tensor of data with the dtype and device of x.
---@param x mt.Tensor
---@param data number|boolean|table|mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.new_tensor(x, data, dtype, device, requires_grad) end

--- A tensor of data with the dtype and device of x.
---@param data number|boolean|table|mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:new_tensor(data, dtype, device, requires_grad) end

--- Zeros with the dtype and device of x.
---@param x mt.Tensor
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.new_zeros(x, shape, dtype, device, requires_grad) end

--- Zeros with the dtype and device of x.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:new_zeros(shape, dtype, device, requires_grad) end

--- A tensor of ones.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.ones(shape, dtype, device, requires_grad) end

--- Ones of the same shape.
---@param x mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.ones_like(x, dtype, device, requires_grad) end

--- Ones of the same shape.
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:ones_like(dtype, device, requires_grad) end

--- first, first + step, .. up to last, which is included; int64 where all are whole.
---@param first number
---@param last number
---@param step? number default 1
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.range(first, last, step, dtype, device, requires_grad) end

--- Where new tensors are made when nothing is said: 'cpu', 'cuda'.
---@param device string
---@return mt.Tensor ...
function mt.set_default_device(device) end

--- The type of numbers without a dtype: a float type, at first 'float32'.
---@param dtype mt.Dtype
---@return mt.Tensor ...
function mt.set_default_dtype(dtype) end

--- A tensor from a number, a boolean or nested lists.
---@param data number|boolean|table|mt.Tensor
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.tensor(data, dtype, device, requires_grad) end

--- Another dtype or device: x:to('float64'), x:to('cuda'), or those of another tensor. A float that an integer dtype cannot hold becomes its nearest number, NaN 0. non_blocking: from page-locked memory the copy to a GPU may still be under way; x must not change meanwhile.
---@param x mt.Tensor
---@param target? string
---@param other? string
---@param dtype? mt.Dtype
---@param device? string
---@param non_blocking? boolean default false
---@return mt.Tensor ...
function mt.to(x, target, other, dtype, device, non_blocking) end

--- Another dtype or device: x:to('float64'), x:to('cuda'), or those of another tensor. A float that an integer dtype cannot hold becomes its nearest number, NaN 0. non_blocking: from page-locked memory the copy to a GPU may still be under way; x must not change meanwhile.
---@param target? string
---@param other? string
---@param dtype? mt.Dtype
---@param device? string
---@param non_blocking? boolean default false
---@return mt.Tensor ...
function Tensor:to(target, other, dtype, device, non_blocking) end

--- The positions on and below the diagonal: (2 x n), rows above columns.
---@param rows integer
---@param columns integer
---@param offset? integer default 0
---@param device? string
---@return mt.Tensor ...
function mt.tril_indices(rows, columns, offset, device) end

--- The positions on and above the diagonal: (2 x n), rows above columns.
---@param rows integer
---@param columns integer
---@param offset? integer default 0
---@param device? string
---@return mt.Tensor ...
function mt.triu_indices(rows, columns, offset, device) end

--- x with the dtype of y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.type_as(x, y) end

--- x with the dtype of y.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:type_as(y) end

--- Sets every element to 0.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.zero_(x) end

--- Sets every element to 0.
---@return mt.Tensor ...
function Tensor:zero_() end

--- A tensor of zeros.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.zeros(shape, dtype, device, requires_grad) end

--- Zeros of the same shape.
---@param x mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function mt.zeros_like(x, dtype, device, requires_grad) end

--- Zeros of the same shape.
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@return mt.Tensor ...
function Tensor:zeros_like(dtype, device, requires_grad) end

--- Whether x lies in page-locked memory of the CPU.
---@return boolean ...
function Tensor:is_pinned() end

--- x, of the CPU, in page-locked memory: x:pin_memory():to('cuda', {non_blocking=true}) does not wait. Where CUDA cannot be used, an error says why.
---@return mt.Tensor ...
function Tensor:pin_memory() end

--- A stream of random numbers of its own: 'philox', as after manual_seed(seed), or 'mt19937', as PyTorch's on the CPU. Methods: manual_seed seed initial_seed get_state set_state.
---@param kind? string default 'philox'
---@param seed? integer default 0
---@return mt.Tensor ...
function mt.Generator(kind, seed) end

--- 1 with probability p, else 0: for each element of a tensor p, or a number and a shape.
---@param p number
---@param shape? integer|integer[]
---@param dtype? mt.Dtype
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.bernoulli(p, shape, dtype, generator) end

--- 1 with probability p, else 0: for each element of a tensor p, or a number and a shape.
---@param shape? integer|integer[]
---@param dtype? mt.Dtype
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:bernoulli(shape, dtype, generator) end

--- Fills x with 1 with probability p, else 0.
---@param x mt.Tensor
---@param p? number default 0.5
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.bernoulli_(x, p, generator) end

--- Fills x with 1 with probability p, else 0.
---@param p? number default 0.5
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:bernoulli_(p, generator) end

--- Fills x with exponential numbers of that rate.
---@param x mt.Tensor
---@param lambd? number default 1
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.exponential_(x, lambd, generator) end

--- Fills x with exponential numbers of that rate.
---@param lambd? number default 1
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:exponential_(lambd, generator) end

--- Where the random numbers stand, as a string for set_rng_state.
---@return mt.Tensor ...
function mt.get_rng_state() end

--- Starts the random numbers anew; the same seed gives the same numbers on every device. They are not torch.manual_seed's: PyTorch's own come from {generator=mt.Generator('mt19937', n)}.
---@param n integer
---@return mt.Tensor ...
function mt.manual_seed(n) end

--- n positions (from 1) drawn by weights that need not sum to 1: [classes] gives [n], [rows x classes] gives [rows x n].
---@param weights mt.Tensor
---@param n integer
---@param replacement? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.multinomial(weights, n, replacement, generator) end

--- n positions (from 1) drawn by weights that need not sum to 1: [classes] gives [n], [rows x classes] gives [rows x n].
---@param n integer
---@param replacement? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:multinomial(n, replacement, generator) end

--- Normal numbers of a shape; or with a mean and deviation for each, as tensors.
---@param mean? mt.Tensor|number default 0
---@param std? mt.Tensor|number default 1
---@param shape? integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.normal(mean, std, shape, dtype, device, requires_grad, generator) end

--- Fills x with normal numbers.
---@param x mt.Tensor
---@param mean? mt.Tensor|number default 0
---@param std? mt.Tensor|number default 1
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.normal_(x, mean, std, generator) end

--- Fills x with normal numbers.
---@param mean? mt.Tensor|number default 0
---@param std? mt.Tensor|number default 1
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:normal_(mean, std, generator) end

--- Uniform numbers in [0, 1).
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.rand(shape, dtype, device, requires_grad, generator) end

--- Uniform numbers in x's shape.
---@param x mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.rand_like(x, dtype, device, requires_grad, generator) end

--- Uniform numbers in x's shape.
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:rand_like(dtype, device, requires_grad, generator) end

--- Whole numbers from first to last, both included.
---@param first number
---@param last number
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.randint(first, last, shape, dtype, device, requires_grad, generator) end

--- Whole numbers in x's shape, ends included.
---@param x mt.Tensor
---@param first number
---@param last number
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.randint_like(x, first, last, dtype, device, requires_grad, generator) end

--- Whole numbers in x's shape, ends included.
---@param first number
---@param last number
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:randint_like(first, last, dtype, device, requires_grad, generator) end

--- Normal numbers with mean 0 and deviation 1.
---@param shape integer|integer[]
---@param dtype? mt.Dtype
---@param device? string default 'cpu'
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.randn(shape, dtype, device, requires_grad, generator) end

--- Normal numbers in x's shape.
---@param x mt.Tensor
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.randn_like(x, dtype, device, requires_grad, generator) end

--- Normal numbers in x's shape.
---@param dtype? mt.Dtype
---@param device? string
---@param requires_grad? boolean default false
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:randn_like(dtype, device, requires_grad, generator) end

--- Fills x with whole numbers from first to last; without them from all that the dtype holds.
---@param x mt.Tensor
---@param first? number
---@param last? number
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.random_(x, first, last, generator) end

--- Fills x with whole numbers from first to last; without them from all that the dtype holds.
---@param first? number
---@param last? number
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:random_(first, last, generator) end

--- The numbers 1..n in random order.
---@param n integer
---@param generator? mt.Generator
---@param device? string
---@return mt.Tensor ...
function mt.randperm(n, generator, device) end

--- Goes back to where get_rng_state was called.
---@param state string
---@return mt.Tensor ...
function mt.set_rng_state(state) end

--- Fills x with uniform numbers in [from, to).
---@param x mt.Tensor
---@param from? number default 0
---@param to? number default 1
---@param generator? mt.Generator
---@return mt.Tensor ...
function mt.uniform_(x, from, to, generator) end

--- Fills x with uniform numbers in [from, to).
---@param from? number default 0
---@param to? number default 1
---@param generator? mt.Generator
---@return mt.Tensor ...
function Tensor:uniform_(from, to, generator) end

--- |x|; the slope at 0 is 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.abs(x, options) end

--- |x|; the slope at 0 is 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:abs(options) end

--- |x|; the slope at 0 is 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.abs_(x) end

--- |x|; the slope at 0 is 0, written into x.
---@return mt.Tensor ...
function Tensor:abs_() end

--- The same as abs.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.absolute(x, options) end

--- The same as abs.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:absolute(options) end

--- The same as abs_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.absolute_(x) end

--- The same as abs_.
---@return mt.Tensor ...
function Tensor:absolute_() end

--- arccosine, in radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.acos(x, options) end

--- arccosine, in radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:acos(options) end

--- arccosine, in radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.acos_(x) end

--- arccosine, in radians, written into x.
---@return mt.Tensor ...
function Tensor:acos_() end

--- inverse hyperbolic cosine, for x from 1 on.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.acosh(x, options) end

--- inverse hyperbolic cosine, for x from 1 on.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:acosh(options) end

--- inverse hyperbolic cosine, for x from 1 on, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.acosh_(x) end

--- inverse hyperbolic cosine, for x from 1 on, written into x.
---@return mt.Tensor ...
function Tensor:acosh_() end

--- x + y; of two bools their or.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.add(x, y, alpha, options) end

--- x + y; of two bools their or.
---@param y mt.Tensor|number
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:add(y, alpha, options) end

--- x + y; of two bools their or, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.add_(x, y, alpha) end

--- x + y; of two bools their or, written into x.
---@param y mt.Tensor|number
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:add_(y, alpha) end

--- x + value * y / z.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.addcdiv(x, y, z, value, options) end

--- x + value * y / z.
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:addcdiv(y, z, value, options) end

--- x + value * y / z, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@return mt.Tensor ...
function mt.addcdiv_(x, y, z, value) end

--- x + value * y / z, written into x.
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@return mt.Tensor ...
function Tensor:addcdiv_(y, z, value) end

--- x + value * y * z.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.addcmul(x, y, z, value, options) end

--- x + value * y * z.
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:addcmul(y, z, value, options) end

--- x + value * y * z, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@return mt.Tensor ...
function mt.addcmul_(x, y, z, value) end

--- x + value * y * z, written into x.
---@param y mt.Tensor|number
---@param z mt.Tensor|number
---@param value? number default 1
---@return mt.Tensor ...
function Tensor:addcmul_(y, z, value) end

--- Whether |x - y| <= atol + rtol |y| everywhere.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rtol? number default 1e-5
---@param atol? number default 1e-8
---@param equal_nan? boolean default false
---@return boolean ...
function mt.allclose(x, y, rtol, atol, equal_nan) end

--- Whether |x - y| <= atol + rtol |y| everywhere.
---@param y mt.Tensor|number
---@param rtol? number default 1e-5
---@param atol? number default 1e-8
---@param equal_nan? boolean default false
---@return boolean ...
function Tensor:allclose(y, rtol, atol, equal_nan) end

--- The same as acos.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arccos(x, options) end

--- The same as acos.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arccos(options) end

--- The same as acos_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.arccos_(x) end

--- The same as acos_.
---@return mt.Tensor ...
function Tensor:arccos_() end

--- The same as acosh.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arccosh(x, options) end

--- The same as acosh.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arccosh(options) end

--- The same as acosh_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.arccosh_(x) end

--- The same as acosh_.
---@return mt.Tensor ...
function Tensor:arccosh_() end

--- The same as asin.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arcsin(x, options) end

--- The same as asin.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arcsin(options) end

--- The same as asin_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.arcsin_(x) end

--- The same as asin_.
---@return mt.Tensor ...
function Tensor:arcsin_() end

--- The same as asinh.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arcsinh(x, options) end

--- The same as asinh.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arcsinh(options) end

--- The same as asinh_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.arcsinh_(x) end

--- The same as asinh_.
---@return mt.Tensor ...
function Tensor:arcsinh_() end

--- The same as atan.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arctan(x, options) end

--- The same as atan.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arctan(options) end

--- The same as atan2.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arctan2(x, y, options) end

--- The same as atan2.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arctan2(y, options) end

--- The same as atan2_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.arctan2_(x, y) end

--- The same as atan2_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:arctan2_(y) end

--- The same as atan_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.arctan_(x) end

--- The same as atan_.
---@return mt.Tensor ...
function Tensor:arctan_() end

--- The same as atanh.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.arctanh(x, options) end

--- The same as atanh.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:arctanh(options) end

--- The same as atanh_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.arctanh_(x) end

--- The same as atanh_.
---@return mt.Tensor ...
function Tensor:arctanh_() end

--- arcsine, in radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.asin(x, options) end

--- arcsine, in radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:asin(options) end

--- arcsine, in radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.asin_(x) end

--- arcsine, in radians, written into x.
---@return mt.Tensor ...
function Tensor:asin_() end

--- inverse hyperbolic sine.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.asinh(x, options) end

--- inverse hyperbolic sine.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:asinh(options) end

--- inverse hyperbolic sine, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.asinh_(x) end

--- inverse hyperbolic sine, written into x.
---@return mt.Tensor ...
function Tensor:asinh_() end

--- arctangent, in radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.atan(x, options) end

--- arctangent, in radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:atan(options) end

--- the angle of the point (y, x), in radians: of x / y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.atan2(x, y, options) end

--- the angle of the point (y, x), in radians: of x / y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:atan2(y, options) end

--- the angle of the point (y, x), in radians: of x / y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.atan2_(x, y) end

--- the angle of the point (y, x), in radians: of x / y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:atan2_(y) end

--- arctangent, in radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.atan_(x) end

--- arctangent, in radians, written into x.
---@return mt.Tensor ...
function Tensor:atan_() end

--- inverse hyperbolic tangent.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.atanh(x, options) end

--- inverse hyperbolic tangent.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:atanh(options) end

--- inverse hyperbolic tangent, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.atanh_(x) end

--- inverse hyperbolic tangent, written into x.
---@return mt.Tensor ...
function Tensor:atanh_() end

--- the bits that both have.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bitwise_and(x, y, options) end

--- the bits that both have.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bitwise_and(y, options) end

--- the bits that both have, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.bitwise_and_(x, y) end

--- the bits that both have, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:bitwise_and_(y) end

--- x * 2^y without what leaves the dtype; 0 where y is negative or its width.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bitwise_left_shift(x, y, options) end

--- x * 2^y without what leaves the dtype; 0 where y is negative or its width.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bitwise_left_shift(y, options) end

--- x * 2^y without what leaves the dtype; 0 where y is negative or its width, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.bitwise_left_shift_(x, y) end

--- x * 2^y without what leaves the dtype; 0 where y is negative or its width, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:bitwise_left_shift_(y) end

--- the bits of an integer inverted; of a bool its contrary.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bitwise_not(x, options) end

--- the bits of an integer inverted; of a bool its contrary.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bitwise_not(options) end

--- the bits of an integer inverted; of a bool its contrary, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.bitwise_not_(x) end

--- the bits of an integer inverted; of a bool its contrary, written into x.
---@return mt.Tensor ...
function Tensor:bitwise_not_() end

--- the bits that one has.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bitwise_or(x, y, options) end

--- the bits that one has.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bitwise_or(y, options) end

--- the bits that one has, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.bitwise_or_(x, y) end

--- the bits that one has, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:bitwise_or_(y) end

--- x / 2^y rounded down; only the sign is left where y is negative or the width.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bitwise_right_shift(x, y, options) end

--- x / 2^y rounded down; only the sign is left where y is negative or the width.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bitwise_right_shift(y, options) end

--- x / 2^y rounded down; only the sign is left where y is negative or the width, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.bitwise_right_shift_(x, y) end

--- x / 2^y rounded down; only the sign is left where y is negative or the width, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:bitwise_right_shift_(y) end

--- the bits that differ.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bitwise_xor(x, y, options) end

--- the bits that differ.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bitwise_xor(y, options) end

--- the bits that differ, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.bitwise_xor_(x, y) end

--- the bits that differ, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:bitwise_xor_(y) end

--- the smallest whole number not below x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.ceil(x, options) end

--- the smallest whole number not below x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:ceil(options) end

--- the smallest whole number not below x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.ceil_(x) end

--- the smallest whole number not below x, written into x.
---@return mt.Tensor ...
function Tensor:ceil_() end

--- x, or alpha * (exp(x / alpha) - 1) below 0; the slope at NaN is NaN (Barron 2017).
---@param x mt.Tensor
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.celu(x, alpha, options) end

--- x, or alpha * (exp(x / alpha) - 1) below 0; the slope at NaN is NaN (Barron 2017).
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:celu(alpha, options) end

--- x, or alpha * (exp(x / alpha) - 1) below 0; the slope at NaN is NaN (Barron 2017), written into x.
---@param x mt.Tensor
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.celu_(x, alpha) end

--- x, or alpha * (exp(x / alpha) - 1) below 0; the slope at NaN is NaN (Barron 2017), written into x.
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:celu_(alpha) end

--- x held between min and max; NaN stays; the slope is 0 at the ends and of NaN.
---@param x mt.Tensor
---@param min? number
---@param max? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.clamp(x, min, max, options) end

--- x held between min and max; NaN stays; the slope is 0 at the ends and of NaN.
---@param min? number
---@param max? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:clamp(min, max, options) end

--- x held between min and max; NaN stays; the slope is 0 at the ends and of NaN, written into x.
---@param x mt.Tensor
---@param min? number
---@param max? number
---@return mt.Tensor ...
function mt.clamp_(x, min, max) end

--- x held between min and max; NaN stays; the slope is 0 at the ends and of NaN, written into x.
---@param min? number
---@param max? number
---@return mt.Tensor ...
function Tensor:clamp_(min, max) end

--- x, or max where x is above; a number or a tensor.
---@param x mt.Tensor
---@param max number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.clamp_max(x, max, options) end

--- x, or max where x is above; a number or a tensor.
---@param max number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:clamp_max(max, options) end

--- x, or max where x is above, written into x.
---@param x mt.Tensor
---@param max number
---@return mt.Tensor ...
function mt.clamp_max_(x, max) end

--- x, or max where x is above, written into x.
---@param max number
---@return mt.Tensor ...
function Tensor:clamp_max_(max) end

--- x, or min where x is below; a number or a tensor.
---@param x mt.Tensor
---@param min number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.clamp_min(x, min, options) end

--- x, or min where x is below; a number or a tensor.
---@param min number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:clamp_min(min, options) end

--- x, or min where x is below, written into x.
---@param x mt.Tensor
---@param min number
---@return mt.Tensor ...
function mt.clamp_min_(x, min) end

--- x, or min where x is below, written into x.
---@param min number
---@return mt.Tensor ...
function Tensor:clamp_min_(min) end

--- The same as clamp.
---@param x mt.Tensor
---@param min? number
---@param max? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.clip(x, min, max, options) end

--- The same as clamp.
---@param min? number
---@param max? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:clip(min, max, options) end

--- The same as clamp_.
---@param x mt.Tensor
---@param min? number
---@param max? number
---@return mt.Tensor ...
function mt.clip_(x, min, max) end

--- The same as clamp_.
---@param min? number
---@param max? number
---@return mt.Tensor ...
function Tensor:clip_(min, max) end

--- |x| with the sign of y; the slope at 0 is 0.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.copysign(x, y, options) end

--- |x| with the sign of y; the slope at 0 is 0.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:copysign(y, options) end

--- |x| with the sign of y; the slope at 0 is 0, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.copysign_(x, y) end

--- |x| with the sign of y; the slope at 0 is 0, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:copysign_(y) end

--- cosine, x in radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.cos(x, options) end

--- cosine, x in radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:cos(options) end

--- cosine, x in radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.cos_(x) end

--- cosine, x in radians, written into x.
---@return mt.Tensor ...
function Tensor:cos_() end

--- hyperbolic cosine.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.cosh(x, options) end

--- hyperbolic cosine.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:cosh(options) end

--- hyperbolic cosine, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.cosh_(x) end

--- hyperbolic cosine, written into x.
---@return mt.Tensor ...
function Tensor:cosh_() end

--- degrees as radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.deg2rad(x, options) end

--- degrees as radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:deg2rad(options) end

--- degrees as radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.deg2rad_(x) end

--- degrees as radians, written into x.
---@return mt.Tensor ...
function Tensor:deg2rad_() end

--- the derivative of lgamma.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.digamma(x, options) end

--- the derivative of lgamma.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:digamma(options) end

--- the derivative of lgamma, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.digamma_(x) end

--- the derivative of lgamma, written into x.
---@return mt.Tensor ...
function Tensor:digamma_() end

--- x / y; of integers a float.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rounding_mode? string
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.div(x, y, rounding_mode, options) end

--- x / y; of integers a float.
---@param y mt.Tensor|number
---@param rounding_mode? string
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:div(y, rounding_mode, options) end

--- x / y; of integers a float, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rounding_mode? string
---@return mt.Tensor ...
function mt.div_(x, y, rounding_mode) end

--- x / y; of integers a float, written into x.
---@param y mt.Tensor|number
---@param rounding_mode? string
---@return mt.Tensor ...
function Tensor:div_(y, rounding_mode) end

--- The same as div.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rounding_mode? string
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.divide(x, y, rounding_mode, options) end

--- The same as div.
---@param y mt.Tensor|number
---@param rounding_mode? string
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:divide(y, rounding_mode, options) end

--- The same as div_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rounding_mode? string
---@return mt.Tensor ...
function mt.divide_(x, y, rounding_mode) end

--- The same as div_.
---@param y mt.Tensor|number
---@param rounding_mode? string
---@return mt.Tensor ...
function Tensor:divide_(y, rounding_mode) end

--- x, or alpha * (exp(x) - 1) below 0; the slope at NaN is NaN (Clevert 2015).
---@param x mt.Tensor
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.elu(x, alpha, options) end

--- x, or alpha * (exp(x) - 1) below 0; the slope at NaN is NaN (Clevert 2015).
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:elu(alpha, options) end

--- x, or alpha * (exp(x) - 1) below 0; the slope at NaN is NaN (Clevert 2015), written into x.
---@param x mt.Tensor
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.elu_(x, alpha) end

--- x, or alpha * (exp(x) - 1) below 0; the slope at NaN is NaN (Clevert 2015), written into x.
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:elu_(alpha) end

--- -x * log(x), 0 at 0 and -inf below: the entropy's summand.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.entr(x, options) end

--- -x * log(x), 0 at 0 and -inf below: the entropy's summand.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:entr(options) end

--- -x * log(x), 0 at 0 and -inf below: the entropy's summand, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.entr_(x) end

--- -x * log(x), 0 at 0 and -inf below: the entropy's summand, written into x.
---@return mt.Tensor ...
function Tensor:entr_() end

--- x equals y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.eq(x, y, options) end

--- x equals y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:eq(y, options) end

--- x equals y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.eq_(x, y) end

--- x equals y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:eq_(y) end

--- Whether shapes and all elements are equal: a Lua boolean.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return boolean ...
function mt.equal(x, y) end

--- Whether shapes and all elements are equal: a Lua boolean.
---@param y mt.Tensor|number
---@return boolean ...
function Tensor:equal(y) end

--- error function.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.erf(x, options) end

--- error function.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:erf(options) end

--- error function, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.erf_(x) end

--- error function, written into x.
---@return mt.Tensor ...
function Tensor:erf_() end

--- 1 - erf(x), exact far out.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.erfc(x, options) end

--- 1 - erf(x), exact far out.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:erfc(options) end

--- 1 - erf(x), exact far out, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.erfc_(x) end

--- 1 - erf(x), exact far out, written into x.
---@return mt.Tensor ...
function Tensor:erfc_() end

--- exp(x * x) * erfc(x), a moderate number for every x > 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.erfcx(x, options) end

--- exp(x * x) * erfc(x), a moderate number for every x > 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:erfcx(options) end

--- exp(x * x) * erfc(x), a moderate number for every x > 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.erfcx_(x) end

--- exp(x * x) * erfc(x), a moderate number for every x > 0, written into x.
---@return mt.Tensor ...
function Tensor:erfcx_() end

--- the inverse of erf.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.erfinv(x, options) end

--- the inverse of erf.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:erfinv(options) end

--- the inverse of erf, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.erfinv_(x) end

--- the inverse of erf, written into x.
---@return mt.Tensor ...
function Tensor:erfinv_() end

--- e to the power x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.exp(x, options) end

--- e to the power x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:exp(options) end

--- 2 to the power x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.exp2(x, options) end

--- 2 to the power x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:exp2(options) end

--- 2 to the power x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.exp2_(x) end

--- 2 to the power x, written into x.
---@return mt.Tensor ...
function Tensor:exp2_() end

--- e to the power x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.exp_(x) end

--- e to the power x, written into x.
---@return mt.Tensor ...
function Tensor:exp_() end

--- The same as sigmoid.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.expit(x, options) end

--- The same as sigmoid.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:expit(options) end

--- The same as sigmoid_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.expit_(x) end

--- The same as sigmoid_.
---@return mt.Tensor ...
function Tensor:expit_() end

--- exp(x) - 1, exact near 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.expm1(x, options) end

--- exp(x) - 1, exact near 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:expm1(options) end

--- exp(x) - 1, exact near 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.expm1_(x) end

--- exp(x) - 1, exact near 0, written into x.
---@return mt.Tensor ...
function Tensor:expm1_() end

--- The same as trunc.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.fix(x, options) end

--- The same as trunc.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:fix(options) end

--- The same as trunc_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.fix_(x) end

--- The same as trunc_.
---@return mt.Tensor ...
function Tensor:fix_() end

--- x to the power y in float64.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.float_power(x, y, options) end

--- x to the power y in float64.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:float_power(y, options) end

--- float_power, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.float_power_(x, y) end

--- float_power, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:float_power_(y) end

--- the largest whole number not above x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.floor(x, options) end

--- the largest whole number not above x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:floor(options) end

--- the largest whole number not above x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.floor_(x) end

--- the largest whole number not above x, written into x.
---@return mt.Tensor ...
function Tensor:floor_() end

--- x / y rounded down; integers stay integers.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.floor_divide(x, y, options) end

--- x / y rounded down; integers stay integers.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:floor_divide(y, options) end

--- x / y rounded down; integers stay integers, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.floor_divide_(x, y) end

--- x / y rounded down; integers stay integers, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:floor_divide_(y) end

--- the larger of x and y, beside NaN the other; ties share the gradient.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.fmax(x, y, options) end

--- the larger of x and y, beside NaN the other; ties share the gradient.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:fmax(y, options) end

--- the larger of x and y, beside NaN the other; ties share the gradient, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.fmax_(x, y) end

--- the larger of x and y, beside NaN the other; ties share the gradient, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:fmax_(y) end

--- the smaller of x and y, beside NaN the other; ties share the gradient.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.fmin(x, y, options) end

--- the smaller of x and y, beside NaN the other; ties share the gradient.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:fmin(y, options) end

--- the smaller of x and y, beside NaN the other; ties share the gradient, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.fmin_(x, y) end

--- the smaller of x and y, beside NaN the other; ties share the gradient, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:fmin_(y) end

--- x - y * trunc(x / y): the sign of x, as C's fmod.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.fmod(x, y, options) end

--- x - y * trunc(x / y): the sign of x, as C's fmod.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:fmod(y, options) end

--- x - y * trunc(x / y): the sign of x, as C's fmod, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.fmod_(x, y) end

--- x - y * trunc(x / y): the sign of x, as C's fmod, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:fmod_(y) end

--- x - trunc(x): the fraction, with the sign of x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.frac(x, options) end

--- x - trunc(x): the fraction, with the sign of x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:frac(options) end

--- x - trunc(x): the fraction, with the sign of x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.frac_(x) end

--- x - trunc(x): the fraction, with the sign of x, written into x.
---@return mt.Tensor ...
function Tensor:frac_() end

--- The same as igamma.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gammainc(x, y, options) end

--- The same as igamma.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gammainc(y, options) end

--- The same as igamma_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.gammainc_(x, y) end

--- The same as igamma_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:gammainc_(y) end

--- The same as igammac.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gammaincc(x, y, options) end

--- The same as igammac.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gammaincc(y, options) end

--- The same as igammac_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.gammaincc_(x, y) end

--- The same as igammac_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:gammaincc_(y) end

--- The same as lgamma.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gammaln(x, options) end

--- The same as lgamma.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gammaln(options) end

--- The same as lgamma_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.gammaln_(x) end

--- The same as lgamma_.
---@return mt.Tensor ...
function Tensor:gammaln_() end

--- the greatest common divisor, 0 of two zeros.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gcd(x, y, options) end

--- the greatest common divisor, 0 of two zeros.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gcd(y, options) end

--- the greatest common divisor, 0 of two zeros, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.gcd_(x, y) end

--- the greatest common divisor, 0 of two zeros, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:gcd_(y) end

--- x >= y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.ge(x, y, options) end

--- x >= y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:ge(y, options) end

--- x >= y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.ge_(x, y) end

--- x >= y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:ge_(y) end

--- x times the normal distribution function of x (Hendrycks 2016).
---@param x mt.Tensor
---@param approximate? string default 'none'
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gelu(x, approximate, options) end

--- x times the normal distribution function of x (Hendrycks 2016).
---@param approximate? string default 'none'
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gelu(approximate, options) end

--- x times the normal distribution function of x (Hendrycks 2016), written into x.
---@param x mt.Tensor
---@param approximate? string default 'none'
---@return mt.Tensor ...
function mt.gelu_(x, approximate) end

--- x times the normal distribution function of x (Hendrycks 2016), written into x.
---@param approximate? string default 'none'
---@return mt.Tensor ...
function Tensor:gelu_(approximate) end

--- gelu by its approximation with tanh: gelu(x, {approximate='tanh'}).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gelu_tanh(x, options) end

--- gelu by its approximation with tanh: gelu(x, {approximate='tanh'}).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gelu_tanh(options) end

--- gelu by its approximation with tanh: gelu(x, {approximate='tanh'}), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.gelu_tanh_(x) end

--- gelu by its approximation with tanh: gelu(x, {approximate='tanh'}), written into x.
---@return mt.Tensor ...
function Tensor:gelu_tanh_() end

--- The same as gt.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.greater(x, y, options) end

--- The same as gt.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:greater(y, options) end

--- The same as gt_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.greater_(x, y) end

--- The same as gt_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:greater_(y) end

--- The same as ge.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.greater_equal(x, y, options) end

--- The same as ge.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:greater_equal(y, options) end

--- The same as ge_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.greater_equal_(x, y) end

--- The same as ge_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:greater_equal_(y) end

--- x > y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.gt(x, y, options) end

--- x > y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:gt(y, options) end

--- x > y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.gt_(x, y) end

--- x > y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:gt_(y) end

--- x, or 0 where |x| <= lambd; the slope at NaN is 0.
---@param x mt.Tensor
---@param lambd? number default 0.5
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.hardshrink(x, lambd, options) end

--- x, or 0 where |x| <= lambd; the slope at NaN is 0.
---@param lambd? number default 0.5
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:hardshrink(lambd, options) end

--- x, or 0 where |x| <= lambd; the slope at NaN is 0, written into x.
---@param x mt.Tensor
---@param lambd? number default 0.5
---@return mt.Tensor ...
function mt.hardshrink_(x, lambd) end

--- x, or 0 where |x| <= lambd; the slope at NaN is 0, written into x.
---@param lambd? number default 0.5
---@return mt.Tensor ...
function Tensor:hardshrink_(lambd) end

--- (x + 3) / 6 held between 0 and 1; the slope at the ends is 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.hardsigmoid(x, options) end

--- (x + 3) / 6 held between 0 and 1; the slope at the ends is 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:hardsigmoid(options) end

--- (x + 3) / 6 held between 0 and 1; the slope at the ends is 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.hardsigmoid_(x) end

--- (x + 3) / 6 held between 0 and 1; the slope at the ends is 0, written into x.
---@return mt.Tensor ...
function Tensor:hardsigmoid_() end

--- x * hardsigmoid(x); the slope at NaN is NaN (Howard 2019).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.hardswish(x, options) end

--- x * hardsigmoid(x); the slope at NaN is NaN (Howard 2019).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:hardswish(options) end

--- x * hardsigmoid(x); the slope at NaN is NaN (Howard 2019), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.hardswish_(x) end

--- x * hardsigmoid(x); the slope at NaN is NaN (Howard 2019), written into x.
---@return mt.Tensor ...
function Tensor:hardswish_() end

--- x held between min_val and max_val; the slope at the ends and at NaN is 0.
---@param x mt.Tensor
---@param min_val? number default -1
---@param max_val? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.hardtanh(x, min_val, max_val, options) end

--- x held between min_val and max_val; the slope at the ends and at NaN is 0.
---@param min_val? number default -1
---@param max_val? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:hardtanh(min_val, max_val, options) end

--- x held between min_val and max_val; the slope at the ends and at NaN is 0, written into x.
---@param x mt.Tensor
---@param min_val? number default -1
---@param max_val? number default 1
---@return mt.Tensor ...
function mt.hardtanh_(x, min_val, max_val) end

--- x held between min_val and max_val; the slope at the ends and at NaN is 0, written into x.
---@param min_val? number default -1
---@param max_val? number default 1
---@return mt.Tensor ...
function Tensor:hardtanh_(min_val, max_val) end

--- 0 below 0, 1 above, y where x is 0; it has no gradient.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.heaviside(x, y, options) end

--- 0 below 0, 1 above, y where x is 0; it has no gradient.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:heaviside(y, options) end

--- 0 below 0, 1 above, y where x is 0; it has no gradient, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.heaviside_(x, y) end

--- 0 below 0, 1 above, y where x is 0; it has no gradient, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:heaviside_(y) end

--- sqrt(x*x + y*y) without overflow.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.hypot(x, y, options) end

--- sqrt(x*x + y*y) without overflow.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:hypot(y, options) end

--- sqrt(x*x + y*y) without overflow, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.hypot_(x, y) end

--- sqrt(x*x + y*y) without overflow, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:hypot_(y) end

--- the modified Bessel function of the first kind of order 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.i0(x, options) end

--- the modified Bessel function of the first kind of order 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:i0(options) end

--- the modified Bessel function of the first kind of order 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.i0_(x) end

--- the modified Bessel function of the first kind of order 0, written into x.
---@return mt.Tensor ...
function Tensor:i0_() end

--- the modified Bessel function of the first kind of order 1.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.i1(x, options) end

--- the modified Bessel function of the first kind of order 1.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:i1(options) end

--- the modified Bessel function of the first kind of order 1, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.i1_(x) end

--- the modified Bessel function of the first kind of order 1, written into x.
---@return mt.Tensor ...
function Tensor:i1_() end

--- the lower incomplete gamma function P(x, y), regularized: from 0 at y = 0 on to 1; no gradient by x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.igamma(x, y, options) end

--- the lower incomplete gamma function P(x, y), regularized: from 0 at y = 0 on to 1; no gradient by x.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:igamma(y, options) end

--- the lower incomplete gamma function P(x, y), regularized: from 0 at y = 0 on to 1; no gradient by x, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.igamma_(x, y) end

--- the lower incomplete gamma function P(x, y), regularized: from 0 at y = 0 on to 1; no gradient by x, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:igamma_(y) end

--- the upper incomplete gamma function 1 - P(x, y), exact near 0; no gradient by x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.igammac(x, y, options) end

--- the upper incomplete gamma function 1 - P(x, y), exact near 0; no gradient by x.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:igammac(y, options) end

--- the upper incomplete gamma function 1 - P(x, y), exact near 0; no gradient by x, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.igammac_(x, y) end

--- the upper incomplete gamma function 1 - P(x, y), exact near 0; no gradient by x, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:igammac_(y) end

--- Whether |x - y| <= atol + rtol |y|, for each element.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rtol? number default 1e-5
---@param atol? number default 1e-8
---@param equal_nan? boolean default false
---@return mt.Tensor ...
function mt.isclose(x, y, rtol, atol, equal_nan) end

--- Whether |x - y| <= atol + rtol |y|, for each element.
---@param y mt.Tensor|number
---@param rtol? number default 1e-5
---@param atol? number default 1e-8
---@param equal_nan? boolean default false
---@return mt.Tensor ...
function Tensor:isclose(y, rtol, atol, equal_nan) end

--- true where x is neither infinite nor NaN.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.isfinite(x, options) end

--- true where x is neither infinite nor NaN.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:isfinite(options) end

--- true where x is infinite.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.isinf(x, options) end

--- true where x is infinite.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:isinf(options) end

--- true where x is not a number.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.isnan(x, options) end

--- true where x is not a number.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:isnan(options) end

--- true where x is infinite and negative.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.isneginf(x, options) end

--- true where x is infinite and negative.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:isneginf(options) end

--- true where x is infinite and positive.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.isposinf(x, options) end

--- true where x is infinite and positive.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:isposinf(options) end

--- the least common multiple, 0 beside a zero.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.lcm(x, y, options) end

--- the least common multiple, 0 beside a zero.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:lcm(y, options) end

--- the least common multiple, 0 beside a zero, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.lcm_(x, y) end

--- the least common multiple, 0 beside a zero, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:lcm_(y) end

--- x <= y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.le(x, y, options) end

--- x <= y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:le(y, options) end

--- x <= y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.le_(x, y) end

--- x <= y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:le_(y) end

--- x, or negative_slope * x below 0.
---@param x mt.Tensor
---@param negative_slope? number default 0.01
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.leaky_relu(x, negative_slope, options) end

--- x, or negative_slope * x below 0.
---@param negative_slope? number default 0.01
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:leaky_relu(negative_slope, options) end

--- x, or negative_slope * x below 0, written into x.
---@param x mt.Tensor
---@param negative_slope? number default 0.01
---@return mt.Tensor ...
function mt.leaky_relu_(x, negative_slope) end

--- x, or negative_slope * x below 0, written into x.
---@param negative_slope? number default 0.01
---@return mt.Tensor ...
function Tensor:leaky_relu_(negative_slope) end

--- x + weight * (y - x).
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param weight mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.lerp(x, y, weight, options) end

--- x + weight * (y - x).
---@param y mt.Tensor|number
---@param weight mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:lerp(y, weight, options) end

--- x + weight * (y - x), written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param weight mt.Tensor
---@return mt.Tensor ...
function mt.lerp_(x, y, weight) end

--- x + weight * (y - x), written into x.
---@param y mt.Tensor|number
---@param weight mt.Tensor
---@return mt.Tensor ...
function Tensor:lerp_(y, weight) end

--- The same as lt.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.less(x, y, options) end

--- The same as lt.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:less(y, options) end

--- The same as lt_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.less_(x, y) end

--- The same as lt_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:less_(y) end

--- The same as le.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.less_equal(x, y, options) end

--- The same as le.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:less_equal(y, options) end

--- The same as le_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.less_equal_(x, y) end

--- The same as le_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:less_equal_(y) end

--- the logarithm of |gamma(x)|.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.lgamma(x, options) end

--- the logarithm of |gamma(x)|.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:lgamma(options) end

--- the logarithm of |gamma(x)|, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.lgamma_(x) end

--- the logarithm of |gamma(x)|, written into x.
---@return mt.Tensor ...
function Tensor:lgamma_() end

--- natural logarithm.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.log(x, options) end

--- natural logarithm.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:log(options) end

--- logarithm to base 10.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.log10(x, options) end

--- logarithm to base 10.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:log10(options) end

--- logarithm to base 10, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.log10_(x) end

--- logarithm to base 10, written into x.
---@return mt.Tensor ...
function Tensor:log10_() end

--- log(1 + x), exact near 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.log1p(x, options) end

--- log(1 + x), exact near 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:log1p(options) end

--- log(1 + x), exact near 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.log1p_(x) end

--- log(1 + x), exact near 0, written into x.
---@return mt.Tensor ...
function Tensor:log1p_() end

--- logarithm to base 2.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.log2(x, options) end

--- logarithm to base 2.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:log2(options) end

--- logarithm to base 2, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.log2_(x) end

--- logarithm to base 2, written into x.
---@return mt.Tensor ...
function Tensor:log2_() end

--- natural logarithm, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.log_(x) end

--- natural logarithm, written into x.
---@return mt.Tensor ...
function Tensor:log_() end

--- The same as logsigmoid.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.log_sigmoid(x, options) end

--- The same as logsigmoid.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:log_sigmoid(options) end

--- The same as logsigmoid_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.log_sigmoid_(x) end

--- The same as logsigmoid_.
---@return mt.Tensor ...
function Tensor:log_sigmoid_() end

--- log(exp(x) + exp(y)) without overflow.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logaddexp(x, y, options) end

--- log(exp(x) + exp(y)) without overflow.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logaddexp(y, options) end

--- log2(2^x + 2^y) without overflow.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logaddexp2(x, y, options) end

--- log2(2^x + 2^y) without overflow.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logaddexp2(y, options) end

--- log2(2^x + 2^y) without overflow, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.logaddexp2_(x, y) end

--- log2(2^x + 2^y) without overflow, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:logaddexp2_(y) end

--- log(exp(x) + exp(y)) without overflow, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.logaddexp_(x, y) end

--- log(exp(x) + exp(y)) without overflow, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:logaddexp_(y) end

--- both are nonzero.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logical_and(x, y, options) end

--- both are nonzero.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logical_and(y, options) end

--- both are nonzero, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.logical_and_(x, y) end

--- both are nonzero, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:logical_and_(y) end

--- true where x is 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logical_not(x, options) end

--- true where x is 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logical_not(options) end

--- true where x is 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.logical_not_(x) end

--- true where x is 0, written into x.
---@return mt.Tensor ...
function Tensor:logical_not_() end

--- one is nonzero.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logical_or(x, y, options) end

--- one is nonzero.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logical_or(y, options) end

--- one is nonzero, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.logical_or_(x, y) end

--- one is nonzero, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:logical_or_(y) end

--- exactly one is nonzero.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logical_xor(x, y, options) end

--- exactly one is nonzero.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logical_xor(y, options) end

--- exactly one is nonzero, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.logical_xor_(x, y) end

--- exactly one is nonzero, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:logical_xor_(y) end

--- log(x / (1 - x)); with eps, x is first held between eps and 1 - eps.
---@param x mt.Tensor
---@param eps? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logit(x, eps, options) end

--- log(x / (1 - x)); with eps, x is first held between eps and 1 - eps.
---@param eps? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logit(eps, options) end

--- log(x / (1 - x)); with eps, x is first held between eps and 1 - eps, written into x.
---@param x mt.Tensor
---@param eps? number
---@return mt.Tensor ...
function mt.logit_(x, eps) end

--- log(x / (1 - x)); with eps, x is first held between eps and 1 - eps, written into x.
---@param eps? number
---@return mt.Tensor ...
function Tensor:logit_(eps) end

--- log(sigmoid(x)), exact far out.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logsigmoid(x, options) end

--- log(sigmoid(x)), exact far out.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logsigmoid(options) end

--- log(sigmoid(x)), exact far out, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.logsigmoid_(x) end

--- log(sigmoid(x)), exact far out, written into x.
---@return mt.Tensor ...
function Tensor:logsigmoid_() end

--- x < y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.lt(x, y, options) end

--- x < y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:lt(y, options) end

--- x < y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.lt_(x, y) end

--- x < y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:lt_(y) end

--- the larger of x and y; NaN wins; ties share the gradient.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.maximum(x, y, options) end

--- the larger of x and y; NaN wins; ties share the gradient.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:maximum(y, options) end

--- the larger of x and y; NaN wins; ties share the gradient, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.maximum_(x, y) end

--- the larger of x and y; NaN wins; ties share the gradient, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:maximum_(y) end

--- the smaller of x and y; NaN wins; ties share the gradient.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.minimum(x, y, options) end

--- the smaller of x and y; NaN wins; ties share the gradient.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:minimum(y, options) end

--- the smaller of x and y; NaN wins; ties share the gradient, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.minimum_(x, y) end

--- the smaller of x and y; NaN wins; ties share the gradient, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:minimum_(y) end

--- x * tanh(softplus(x)) (Misra 2019).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.mish(x, options) end

--- x * tanh(softplus(x)) (Misra 2019).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:mish(options) end

--- x * tanh(softplus(x)) (Misra 2019), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.mish_(x) end

--- x * tanh(softplus(x)) (Misra 2019), written into x.
---@return mt.Tensor ...
function Tensor:mish_() end

--- x * y; of two bools their and.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.mul(x, y, options) end

--- x * y; of two bools their and.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:mul(y, options) end

--- x * y; of two bools their and, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.mul_(x, y) end

--- x * y; of two bools their and, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:mul_(y) end

--- The same as mvlgamma.
---@param x mt.Tensor
---@param p number
---@return mt.Tensor ...
function mt.multigammaln(x, p) end

--- The same as mvlgamma.
---@param p number
---@return mt.Tensor ...
function Tensor:multigammaln(p) end

--- The same as mvlgamma_.
---@param x mt.Tensor
---@param p number
---@return mt.Tensor ...
function mt.multigammaln_(x, p) end

--- The same as mvlgamma_.
---@param p number
---@return mt.Tensor ...
function Tensor:multigammaln_(p) end

--- The same as mul.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.multiply(x, y, options) end

--- The same as mul.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:multiply(y, options) end

--- The same as mul_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.multiply_(x, y) end

--- The same as mul_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:multiply_(y) end

--- The logarithm of the gamma function of p variables, for x above (p - 1) / 2.
---@param x mt.Tensor
---@param p number
---@return mt.Tensor ...
function mt.mvlgamma(x, p) end

--- The logarithm of the gamma function of p variables, for x above (p - 1) / 2.
---@param p number
---@return mt.Tensor ...
function Tensor:mvlgamma(p) end

--- mvlgamma, written into x.
---@param x mt.Tensor
---@param p number
---@return mt.Tensor ...
function mt.mvlgamma_(x, p) end

--- mvlgamma, written into x.
---@param p number
---@return mt.Tensor ...
function Tensor:mvlgamma_(p) end

--- NaN, inf and -inf replaced, if nil by the dtype's largest and smallest numbers.
---@param x mt.Tensor
---@param nan? number default 0
---@param posinf? number
---@param neginf? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.nan_to_num(x, nan, posinf, neginf, options) end

--- NaN, inf and -inf replaced, if nil by the dtype's largest and smallest numbers.
---@param nan? number default 0
---@param posinf? number
---@param neginf? number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:nan_to_num(nan, posinf, neginf, options) end

--- NaN, inf and -inf replaced, if nil by the dtype's largest and smallest numbers, written into x.
---@param x mt.Tensor
---@param nan? number default 0
---@param posinf? number
---@param neginf? number
---@return mt.Tensor ...
function mt.nan_to_num_(x, nan, posinf, neginf) end

--- NaN, inf and -inf replaced, if nil by the dtype's largest and smallest numbers, written into x.
---@param nan? number default 0
---@param posinf? number
---@param neginf? number
---@return mt.Tensor ...
function Tensor:nan_to_num_(nan, posinf, neginf) end

--- the normal distribution function, exact far below 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.ndtr(x, options) end

--- the normal distribution function, exact far below 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:ndtr(options) end

--- the normal distribution function, exact far below 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.ndtr_(x) end

--- the normal distribution function, exact far below 0, written into x.
---@return mt.Tensor ...
function Tensor:ndtr_() end

--- x differs from y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.ne(x, y, options) end

--- x differs from y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:ne(y, options) end

--- x differs from y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.ne_(x, y) end

--- x differs from y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:ne_(y) end

--- -x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.neg(x, options) end

--- -x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:neg(options) end

--- -x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.neg_(x) end

--- -x, written into x.
---@return mt.Tensor ...
function Tensor:neg_() end

--- The same as neg.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.negative(x, options) end

--- The same as neg.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:negative(options) end

--- The same as neg_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.negative_(x) end

--- The same as neg_.
---@return mt.Tensor ...
function Tensor:negative_() end

--- The same as ne.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.not_equal(x, y, options) end

--- The same as ne.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:not_equal(y, options) end

--- The same as ne_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.not_equal_(x, y) end

--- The same as ne_.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:not_equal_(y) end

--- the n-th derivative of digamma, n from 0 to 30.
---@param x mt.Tensor
---@param n number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.polygamma(x, n, options) end

--- the n-th derivative of digamma, n from 0 to 30.
---@param n number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:polygamma(n, options) end

--- the n-th derivative of digamma, n from 0 to 30, written into x.
---@param x mt.Tensor
---@param n number
---@return mt.Tensor ...
function mt.polygamma_(x, n) end

--- the n-th derivative of digamma, n from 0 to 30, written into x.
---@param n number
---@return mt.Tensor ...
function Tensor:polygamma_(n) end

--- x itself.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.positive(x) end

--- x itself.
---@return mt.Tensor ...
function Tensor:positive() end

--- x to the power y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.pow(x, y, options) end

--- x to the power y.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:pow(y, options) end

--- x to the power y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.pow_(x, y) end

--- x to the power y, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:pow_(y) end

--- x, or weight * x below 0: a slope for each channel (He 2015).
---@param x mt.Tensor
---@param weight mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.prelu(x, weight, options) end

--- x, or weight * x below 0: a slope for each channel (He 2015).
---@param weight mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:prelu(weight, options) end

--- x, or weight * x below 0: a slope for each channel (He 2015), written into x.
---@param x mt.Tensor
---@param weight mt.Tensor
---@return mt.Tensor ...
function mt.prelu_(x, weight) end

--- x, or weight * x below 0: a slope for each channel (He 2015), written into x.
---@param weight mt.Tensor
---@return mt.Tensor ...
function Tensor:prelu_(weight) end

--- The same as digamma.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.psi(x, options) end

--- The same as digamma.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:psi(options) end

--- The same as digamma_.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.psi_(x) end

--- The same as digamma_.
---@return mt.Tensor ...
function Tensor:psi_() end

--- radians as degrees.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.rad2deg(x, options) end

--- radians as degrees.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:rad2deg(options) end

--- radians as degrees, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.rad2deg_(x) end

--- radians as degrees, written into x.
---@return mt.Tensor ...
function Tensor:rad2deg_() end

--- 1 / x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.reciprocal(x, options) end

--- 1 / x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:reciprocal(options) end

--- 1 / x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.reciprocal_(x) end

--- 1 / x, written into x.
---@return mt.Tensor ...
function Tensor:reciprocal_() end

--- max(x, 0); the slope at 0 is 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.relu(x, options) end

--- max(x, 0); the slope at 0 is 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:relu(options) end

--- x held between 0 and 6; the slope at the ends and at NaN is 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.relu6(x, options) end

--- x held between 0 and 6; the slope at the ends and at NaN is 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:relu6(options) end

--- x held between 0 and 6; the slope at the ends and at NaN is 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.relu6_(x) end

--- x held between 0 and 6; the slope at the ends and at NaN is 0, written into x.
---@return mt.Tensor ...
function Tensor:relu6_() end

--- max(x, 0); the slope at 0 is 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.relu_(x) end

--- max(x, 0); the slope at 0 is 0, written into x.
---@return mt.Tensor ...
function Tensor:relu_() end

--- x - y * floor(x / y): the sign of y, as Lua's %.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.remainder(x, y, options) end

--- x - y * floor(x / y): the sign of y, as Lua's %.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:remainder(y, options) end

--- x - y * floor(x / y): the sign of y, as Lua's %, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.remainder_(x, y) end

--- x - y * floor(x / y): the sign of y, as Lua's %, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:remainder_(y) end

--- the nearest whole number, halves to even.
---@param x mt.Tensor
---@param decimals? integer default 0
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.round(x, decimals, options) end

--- the nearest whole number, halves to even.
---@param decimals? integer default 0
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:round(decimals, options) end

--- the nearest whole number, halves to even, written into x.
---@param x mt.Tensor
---@param decimals? integer default 0
---@return mt.Tensor ...
function mt.round_(x, decimals) end

--- the nearest whole number, halves to even, written into x.
---@param decimals? integer default 0
---@return mt.Tensor ...
function Tensor:round_(decimals) end

--- 1 / sqrt(x).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.rsqrt(x, options) end

--- 1 / sqrt(x).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:rsqrt(options) end

--- 1 / sqrt(x), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.rsqrt_(x) end

--- 1 / sqrt(x), written into x.
---@return mt.Tensor ...
function Tensor:rsqrt_() end

--- elu with the alpha and the scale that keep mean and variance; the slope at NaN is NaN (Klambauer 2017).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.selu(x, options) end

--- elu with the alpha and the scale that keep mean and variance; the slope at NaN is NaN (Klambauer 2017).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:selu(options) end

--- elu with the alpha and the scale that keep mean and variance; the slope at NaN is NaN (Klambauer 2017), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.selu_(x) end

--- elu with the alpha and the scale that keep mean and variance; the slope at NaN is NaN (Klambauer 2017), written into x.
---@return mt.Tensor ...
function Tensor:selu_() end

--- 1 / (1 + exp(-x)).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sigmoid(x, options) end

--- 1 / (1 + exp(-x)).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sigmoid(options) end

--- 1 / (1 + exp(-x)), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.sigmoid_(x) end

--- 1 / (1 + exp(-x)), written into x.
---@return mt.Tensor ...
function Tensor:sigmoid_() end

--- -1, 0 or 1 (0 for NaN); flat: its gradient is 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sign(x, options) end

--- -1, 0 or 1 (0 for NaN); flat: its gradient is 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sign(options) end

--- -1, 0 or 1 (0 for NaN); flat: its gradient is 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.sign_(x) end

--- -1, 0 or 1 (0 for NaN); flat: its gradient is 0, written into x.
---@return mt.Tensor ...
function Tensor:sign_() end

--- true where x has a minus sign, -0 too.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.signbit(x, options) end

--- true where x has a minus sign, -0 too.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:signbit(options) end

--- x * sigmoid(x), also called swish.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.silu(x, options) end

--- x * sigmoid(x), also called swish.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:silu(options) end

--- x * sigmoid(x), also called swish, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.silu_(x) end

--- x * sigmoid(x), also called swish, written into x.
---@return mt.Tensor ...
function Tensor:silu_() end

--- sine, x in radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sin(x, options) end

--- sine, x in radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sin(options) end

--- sine, x in radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.sin_(x) end

--- sine, x in radians, written into x.
---@return mt.Tensor ...
function Tensor:sin_() end

--- sin(pi x) / (pi x), 1 at 0.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sinc(x, options) end

--- sin(pi x) / (pi x), 1 at 0.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sinc(options) end

--- sin(pi x) / (pi x), 1 at 0, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.sinc_(x) end

--- sin(pi x) / (pi x), 1 at 0, written into x.
---@return mt.Tensor ...
function Tensor:sinc_() end

--- hyperbolic sine.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sinh(x, options) end

--- hyperbolic sine.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sinh(options) end

--- hyperbolic sine, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.sinh_(x) end

--- hyperbolic sine, written into x.
---@return mt.Tensor ...
function Tensor:sinh_() end

--- log(1 + exp(beta x)) / beta; x itself where beta x exceeds threshold.
---@param x mt.Tensor
---@param beta? number default 1
---@param threshold? number default 20
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.softplus(x, beta, threshold, options) end

--- log(1 + exp(beta x)) / beta; x itself where beta x exceeds threshold.
---@param beta? number default 1
---@param threshold? number default 20
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:softplus(beta, threshold, options) end

--- log(1 + exp(beta x)) / beta; x itself where beta x exceeds threshold, written into x.
---@param x mt.Tensor
---@param beta? number default 1
---@param threshold? number default 20
---@return mt.Tensor ...
function mt.softplus_(x, beta, threshold) end

--- log(1 + exp(beta x)) / beta; x itself where beta x exceeds threshold, written into x.
---@param beta? number default 1
---@param threshold? number default 20
---@return mt.Tensor ...
function Tensor:softplus_(beta, threshold) end

--- x moved towards 0 by lambd, 0 where |x| <= lambd; the slope at NaN is 0.
---@param x mt.Tensor
---@param lambd? number default 0.5
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.softshrink(x, lambd, options) end

--- x moved towards 0 by lambd, 0 where |x| <= lambd; the slope at NaN is 0.
---@param lambd? number default 0.5
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:softshrink(lambd, options) end

--- x moved towards 0 by lambd, 0 where |x| <= lambd; the slope at NaN is 0, written into x.
---@param x mt.Tensor
---@param lambd? number default 0.5
---@return mt.Tensor ...
function mt.softshrink_(x, lambd) end

--- x moved towards 0 by lambd, 0 where |x| <= lambd; the slope at NaN is 0, written into x.
---@param lambd? number default 0.5
---@return mt.Tensor ...
function Tensor:softshrink_(lambd) end

--- x / (1 + |x|).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.softsign(x, options) end

--- x / (1 + |x|).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:softsign(options) end

--- x / (1 + |x|), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.softsign_(x) end

--- x / (1 + |x|), written into x.
---@return mt.Tensor ...
function Tensor:softsign_() end

--- square root.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sqrt(x, options) end

--- square root.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sqrt(options) end

--- square root, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.sqrt_(x) end

--- square root, written into x.
---@return mt.Tensor ...
function Tensor:sqrt_() end

--- x * x.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.square(x, options) end

--- x * x.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:square(options) end

--- x * x, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.square_(x) end

--- x * x, written into x.
---@return mt.Tensor ...
function Tensor:square_() end

--- x - y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sub(x, y, alpha, options) end

--- x - y.
---@param y mt.Tensor|number
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sub(y, alpha, options) end

--- x - y, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.sub_(x, y, alpha) end

--- x - y, written into x.
---@param y mt.Tensor|number
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:sub_(y, alpha) end

--- The same as sub.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.subtract(x, y, alpha, options) end

--- The same as sub.
---@param y mt.Tensor|number
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:subtract(y, alpha, options) end

--- The same as sub_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.subtract_(x, y, alpha) end

--- The same as sub_.
---@param y mt.Tensor|number
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:subtract_(y, alpha) end

--- tangent, x in radians.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.tan(x, options) end

--- tangent, x in radians.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:tan(options) end

--- tangent, x in radians, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.tan_(x) end

--- tangent, x in radians, written into x.
---@return mt.Tensor ...
function Tensor:tan_() end

--- hyperbolic tangent.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.tanh(x, options) end

--- hyperbolic tangent.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:tanh(options) end

--- hyperbolic tangent, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.tanh_(x) end

--- hyperbolic tangent, written into x.
---@return mt.Tensor ...
function Tensor:tanh_() end

--- x - tanh(x).
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.tanhshrink(x, options) end

--- x - tanh(x).
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:tanhshrink(options) end

--- x - tanh(x), written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.tanhshrink_(x) end

--- x - tanh(x), written into x.
---@return mt.Tensor ...
function Tensor:tanhshrink_() end

--- An error where two tensors differ by eps or more.
---@param a mt.Tensor
---@param b mt.Tensor
---@param eps? number default 1e-5
---@return mt.Tensor ...
function mt.test_close(a, b, eps) end

--- x where it exceeds threshold, else value.
---@param x mt.Tensor
---@param threshold number
---@param value number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.threshold(x, threshold, value, options) end

--- x where it exceeds threshold, else value.
---@param threshold number
---@param value number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:threshold(threshold, value, options) end

--- x where it exceeds threshold, else value, written into x.
---@param x mt.Tensor
---@param threshold number
---@param value number
---@return mt.Tensor ...
function mt.threshold_(x, threshold, value) end

--- x where it exceeds threshold, else value, written into x.
---@param threshold number
---@param value number
---@return mt.Tensor ...
function Tensor:threshold_(threshold, value) end

--- The same as div.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rounding_mode? string
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.true_divide(x, y, rounding_mode, options) end

--- The same as div.
---@param y mt.Tensor|number
---@param rounding_mode? string
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:true_divide(y, rounding_mode, options) end

--- The same as div_.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param rounding_mode? string
---@return mt.Tensor ...
function mt.true_divide_(x, y, rounding_mode) end

--- The same as div_.
---@param y mt.Tensor|number
---@param rounding_mode? string
---@return mt.Tensor ...
function Tensor:true_divide_(y, rounding_mode) end

--- x without its fraction.
---@param x mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.trunc(x, options) end

--- x without its fraction.
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:trunc(options) end

--- x without its fraction, written into x.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.trunc_(x) end

--- x without its fraction, written into x.
---@return mt.Tensor ...
function Tensor:trunc_() end

--- x / y without its fraction: div(x, y, {rounding_mode='trunc'}).
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.trunc_divide(x, y, options) end

--- x / y without its fraction: div(x, y, {rounding_mode='trunc'}).
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:trunc_divide(y, options) end

--- x / y without its fraction: div(x, y, {rounding_mode='trunc'}), written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.trunc_divide_(x, y) end

--- x / y without its fraction: div(x, y, {rounding_mode='trunc'}), written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:trunc_divide_(y) end

--- x where the condition is set, else y; where(condition) is the list that nonzero gives as_tuple.
---@param condition mt.Tensor
---@param x? mt.Tensor
---@param y? mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.where(condition, x, y, options) end

--- x where the condition is set, else y.
---@param condition? mt.Tensor
---@param y? mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:where(condition, y, options) end

--- x * log(1 + y), and 0 where x is 0, unless y is NaN.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.xlog1py(x, y, options) end

--- x * log(1 + y), and 0 where x is 0, unless y is NaN.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:xlog1py(y, options) end

--- x * log(1 + y), and 0 where x is 0, unless y is NaN, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.xlog1py_(x, y) end

--- x * log(1 + y), and 0 where x is 0, unless y is NaN, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:xlog1py_(y) end

--- x * log(y), and 0 where x is 0, unless y is NaN.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.xlogy(x, y, options) end

--- x * log(y), and 0 where x is 0, unless y is NaN.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:xlogy(y, options) end

--- x * log(y), and 0 where x is 0, unless y is NaN, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.xlogy_(x, y) end

--- x * log(y), and 0 where x is 0, unless y is NaN, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:xlogy_(y) end

--- Hurwitz' zeta function, the sum of (k + y)^-x from k = 0 on; no gradient by x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.zeta(x, y, options) end

--- Hurwitz' zeta function, the sum of (k + y)^-x from k = 0 on; no gradient by x.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:zeta(y, options) end

--- Hurwitz' zeta function, the sum of (k + y)^-x from k = 0 on; no gradient by x, written into x.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.zeta_(x, y) end

--- Hurwitz' zeta function, the sum of (k + y)^-x from k = 0 on; no gradient by x, written into x.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:zeta_(y) end

--- [n x rank], the positions of what is not zero.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.argwhere(x) end

--- [n x rank], the positions of what is not zero.
---@return mt.Tensor ...
function Tensor:argwhere() end

--- The number of the bucket of each element, from 1: boundaries[k - 1] < x <= boundaries[k].
---@param x mt.Tensor
---@param boundaries mt.Tensor
---@param right? boolean default false
---@return mt.Tensor ...
function mt.bucketize(x, boundaries, right) end

--- The number of the bucket of each element, from 1: boundaries[k - 1] < x <= boundaries[k].
---@param boundaries mt.Tensor
---@param right? boolean default false
---@return mt.Tensor ...
function Tensor:bucketize(boundaries, right) end

--- A copy of x with src on the diagonal of two dimensions.
---@param x mt.Tensor
---@param src mt.Tensor
---@param offset? integer default 0
---@param dim1? integer default 1
---@param dim2? integer default 2
---@return mt.Tensor ...
function mt.diagonal_scatter(x, src, offset, dim1, dim2) end

--- A copy of x with src on the diagonal of two dimensions.
---@param src mt.Tensor
---@param offset? integer default 0
---@param dim1? integer default 1
---@param dim2? integer default 2
---@return mt.Tensor ...
function Tensor:diagonal_scatter(src, offset, dim1, dim2) end

--- out[i][j] = x[index[i][j]][j] along dim 1, and so on; the index has x's rank.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function mt.gather(x, dim, index) end

--- out[i][j] = x[index[i][j]][j] along dim 1, and so on; the index has x's rank.
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function Tensor:gather(dim, index) end

--- x with alpha times the slices of source added at the positions of a 1-d index.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.index_add(x, dim, index, source, alpha) end

--- x with alpha times the slices of source added at the positions of a 1-d index.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:index_add(dim, index, source, alpha) end

--- index_add, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.index_add_(x, dim, index, source, alpha) end

--- index_add, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:index_add_(dim, index, source, alpha) end

--- x with the slices of source at the positions of a 1-d index; of slices that meet the last one stays, and it alone has a gradient.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function mt.index_copy(x, dim, index, source) end

--- x with the slices of source at the positions of a 1-d index; of slices that meet the last one stays, and it alone has a gradient.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function Tensor:index_copy(dim, index, source) end

--- index_copy, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function mt.index_copy_(x, dim, index, source) end

--- index_copy, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function Tensor:index_copy_(dim, index, source) end

--- x with a number at the positions of a 1-d index.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param value number
---@return mt.Tensor ...
function mt.index_fill(x, dim, index, value) end

--- x with a number at the positions of a 1-d index.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param value number
---@return mt.Tensor ...
function Tensor:index_fill(dim, index, value) end

--- index_fill, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param value number
---@return mt.Tensor ...
function mt.index_fill_(x, dim, index, value) end

--- index_fill, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param value number
---@return mt.Tensor ...
function Tensor:index_fill_(dim, index, value) end

--- x with x[indices] = values; accumulate adds, also where positions repeat.
---@param x mt.Tensor
---@param indices mt.Tensor[]
---@param values mt.Tensor
---@param accumulate? boolean default false
---@return mt.Tensor ...
function mt.index_put(x, indices, values, accumulate) end

--- x with x[indices] = values; accumulate adds, also where positions repeat.
---@param indices mt.Tensor[]
---@param values mt.Tensor
---@param accumulate? boolean default false
---@return mt.Tensor ...
function Tensor:index_put(indices, values, accumulate) end

--- x[indices] = values; accumulate adds, also where positions repeat.
---@param x mt.Tensor
---@param indices mt.Tensor[]
---@param values mt.Tensor
---@param accumulate? boolean default false
---@return mt.Tensor ...
function mt.index_put_(x, indices, values, accumulate) end

--- x[indices] = values; accumulate adds, also where positions repeat.
---@param indices mt.Tensor[]
---@param values mt.Tensor
---@param accumulate? boolean default false
---@return mt.Tensor ...
function Tensor:index_put_(indices, values, accumulate) end

--- x with the slices of source joined to those at the positions of a 1-d index by 'prod', 'mean', 'amax' or 'amin'; without include_self in their place.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function mt.index_reduce(x, dim, index, source, reduce, include_self) end

--- x with the slices of source joined to those at the positions of a 1-d index by 'prod', 'mean', 'amax' or 'amin'; without include_self in their place.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function Tensor:index_reduce(dim, index, source, reduce, include_self) end

--- index_reduce, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function mt.index_reduce_(x, dim, index, source, reduce, include_self) end

--- index_reduce, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param source mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function Tensor:index_reduce_(dim, index, source, reduce, include_self) end

--- The positions of a dimension that a 1-d integer tensor lists: a copy.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function mt.index_select(x, dim, index) end

--- The positions of a dimension that a 1-d integer tensor lists: a copy.
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function Tensor:index_select(dim, index) end

--- Whether each element is one of test_elements.
---@param elements mt.Tensor|number
---@param test_elements mt.Tensor|number
---@param assume_unique? boolean default false
---@param invert? boolean default false
---@return mt.Tensor ...
function mt.isin(elements, test_elements, assume_unique, invert) end

--- Whether each element is one of test_elements.
---@param test_elements mt.Tensor|number
---@param assume_unique? boolean default false
---@param invert? boolean default false
---@return mt.Tensor ...
function Tensor:isin(test_elements, assume_unique, invert) end

--- x with a number where a bool mask is set.
---@param x mt.Tensor
---@param mask mt.Tensor
---@param value number
---@return mt.Tensor ...
function mt.masked_fill(x, mask, value) end

--- x with a number where a bool mask is set.
---@param mask mt.Tensor
---@param value number
---@return mt.Tensor ...
function Tensor:masked_fill(mask, value) end

--- masked_fill, written into x.
---@param x mt.Tensor
---@param mask mt.Tensor
---@param value number
---@return mt.Tensor ...
function mt.masked_fill_(x, mask, value) end

--- masked_fill, written into x.
---@param mask mt.Tensor
---@param value number
---@return mt.Tensor ...
function Tensor:masked_fill_(mask, value) end

--- x with the elements of source, in order, where a bool mask is set.
---@param x mt.Tensor
---@param mask mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function mt.masked_scatter(x, mask, source) end

--- x with the elements of source, in order, where a bool mask is set.
---@param mask mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function Tensor:masked_scatter(mask, source) end

--- masked_scatter, written into x.
---@param x mt.Tensor
---@param mask mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function mt.masked_scatter_(x, mask, source) end

--- masked_scatter, written into x.
---@param mask mt.Tensor
---@param source mt.Tensor
---@return mt.Tensor ...
function Tensor:masked_scatter_(mask, source) end

--- The elements where a bool mask is set, in row-major order.
---@param x mt.Tensor
---@param mask mt.Tensor
---@return mt.Tensor ...
function mt.masked_select(x, mask) end

--- The elements where a bool mask is set, in row-major order.
---@param mask mt.Tensor
---@return mt.Tensor ...
function Tensor:masked_select(mask) end

--- [n x rank], the positions of what is not zero; as_tuple: a list of one tensor for each dimension, as many as x has, which is an index: x[x:nonzero(true)].
---@param x mt.Tensor
---@param as_tuple? boolean default false
---@return mt.Tensor ...
function mt.nonzero(x, as_tuple) end

--- [n x rank], the positions of what is not zero; as_tuple: a list of one tensor for each dimension, as many as x has, which is an index: x[x:nonzero(true)].
---@param as_tuple? boolean default false
---@return mt.Tensor ...
function Tensor:nonzero(as_tuple) end

--- x with src[i][j] at [index[i][j]][j] along dim 1, and so on; of values that meet the last. src may be a number; reduce 'add' or 'multiply' joins them with x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce? string
---@return mt.Tensor ...
function mt.scatter(x, dim, index, src, reduce) end

--- x with src[i][j] at [index[i][j]][j] along dim 1, and so on; of values that meet the last. src may be a number; reduce 'add' or 'multiply' joins them with x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce? string
---@return mt.Tensor ...
function Tensor:scatter(dim, index, src, reduce) end

--- scatter, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce? string
---@return mt.Tensor ...
function mt.scatter_(x, dim, index, src, reduce) end

--- scatter, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce? string
---@return mt.Tensor ...
function Tensor:scatter_(dim, index, src, reduce) end

--- x with src added at the positions that gather would read.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@return mt.Tensor ...
function mt.scatter_add(x, dim, index, src) end

--- x with src added at the positions that gather would read.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@return mt.Tensor ...
function Tensor:scatter_add(dim, index, src) end

--- scatter_add, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@return mt.Tensor ...
function mt.scatter_add_(x, dim, index, src) end

--- scatter_add, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@return mt.Tensor ...
function Tensor:scatter_add_(dim, index, src) end

--- src joined by 'sum', 'prod', 'mean', 'amax' or 'amin' at the positions that gather would read.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function mt.scatter_reduce(x, dim, index, src, reduce, include_self) end

--- src joined by 'sum', 'prod', 'mean', 'amax' or 'amin' at the positions that gather would read.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function Tensor:scatter_reduce(dim, index, src, reduce, include_self) end

--- scatter_reduce, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function mt.scatter_reduce_(x, dim, index, src, reduce, include_self) end

--- scatter_reduce, written into x.
---@param dim integer|integer[]
---@param index mt.Tensor
---@param src mt.Tensor
---@param reduce string
---@param include_self? boolean default true
---@return mt.Tensor ...
function Tensor:scatter_reduce_(dim, index, src, reduce, include_self) end

--- The position before which each value would be inserted, from 1; after equal ones with right. The sequence is 1-d, or has one row for each row of values.
---@param sorted_sequence mt.Tensor
---@param values mt.Tensor
---@param right? boolean default false
---@param side? string
---@param sorter? mt.Tensor
---@return mt.Tensor ...
function mt.searchsorted(sorted_sequence, values, right, side, sorter) end

--- The position before which each value would be inserted, from 1; after equal ones with right. The sequence is 1-d, or has one row for each row of values.
---@param values mt.Tensor
---@param right? boolean default false
---@param side? string
---@param sorter? mt.Tensor
---@return mt.Tensor ...
function Tensor:searchsorted(values, right, side, sorter) end

--- A copy of x with src at one position of a dimension.
---@param x mt.Tensor
---@param src mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function mt.select_scatter(x, src, dim, index) end

--- A copy of x with src at one position of a dimension.
---@param src mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function Tensor:select_scatter(src, dim, index) end

--- A view of the positions first to last of a dimension, every step-th.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param first? number default 1
---@param last? number default -1
---@param step? number default 1
---@return mt.Tensor ...
function mt.slice(x, dim, first, last, step) end

--- A view of the positions first to last of a dimension, every step-th.
---@param dim integer|integer[]
---@param first? number default 1
---@param last? number default -1
---@param step? number default 1
---@return mt.Tensor ...
function Tensor:slice(dim, first, last, step) end

--- A copy of x with src at the positions first to last of a dimension, every step-th.
---@param x mt.Tensor
---@param src mt.Tensor
---@param dim? integer|integer[] default 1
---@param first? number default 1
---@param last? number default -1
---@param step? number default 1
---@return mt.Tensor ...
function mt.slice_scatter(x, src, dim, first, last, step) end

--- A copy of x with src at the positions first to last of a dimension, every step-th.
---@param src mt.Tensor
---@param dim? integer|integer[] default 1
---@param first? number default 1
---@param last? number default -1
---@param step? number default 1
---@return mt.Tensor ...
function Tensor:slice_scatter(src, dim, first, last, step) end

--- The elements at positions of the flattened x, in the index's shape.
---@param x mt.Tensor
---@param index mt.Tensor
---@return mt.Tensor ...
function mt.take(x, index) end

--- The elements at positions of the flattened x, in the index's shape.
---@param index mt.Tensor
---@return mt.Tensor ...
function Tensor:take(index) end

--- gather where x and the index broadcast; without dim both are flattened.
---@param x mt.Tensor
---@param index mt.Tensor
---@param dim? integer|integer[]
---@return mt.Tensor ...
function mt.take_along_dim(x, index, dim) end

--- gather where x and the index broadcast; without dim both are flattened.
---@param index mt.Tensor
---@param dim? integer|integer[]
---@return mt.Tensor ...
function Tensor:take_along_dim(index, dim) end

--- A list with the positions (from 1) in each dimension of a tensor of this shape that its flattened positions (from 1) have.
---@param indices mt.Tensor
---@param shape integer|integer[]
---@return mt.Tensor ...
function mt.unravel_index(indices, shape) end

--- The storage of x seen with any sizes and strides that stay inside it.
---@param x mt.Tensor
---@param size integer|integer[]
---@param stride integer|integer[]
---@param storage_offset? integer
---@return mt.Tensor ...
function mt.as_strided(x, size, stride, storage_offset) end

--- The storage of x seen with any sizes and strides that stay inside it.
---@param size integer|integer[]
---@param stride integer|integer[]
---@param storage_offset? integer
---@return mt.Tensor ...
function Tensor:as_strided(size, stride, storage_offset) end

--- With at least one dimension.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.atleast_1d(x) end

--- With at least one dimension.
---@return mt.Tensor ...
function Tensor:atleast_1d() end

--- With at least two dimensions.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.atleast_2d(x) end

--- With at least two dimensions.
---@return mt.Tensor ...
function Tensor:atleast_2d() end

--- With at least three dimensions.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.atleast_3d(x) end

--- With at least three dimensions.
---@return mt.Tensor ...
function Tensor:atleast_3d() end

--- Matrices along the diagonal of zeros; a vector is a row.
---@param ... any
---@return mt.Tensor ...
function mt.block_diag(...) end

--- The shape that shapes broadcast to.
---@param ... any
---@return mt.Tensor ...
function mt.broadcast_shapes(...) end

--- Each tensor expanded to the shape that all broadcast to.
---@param ... any
---@return mt.Tensor ...
function mt.broadcast_tensors(...) end

--- Sizes of 1 repeated without a copy.
---@param x mt.Tensor
---@param shape integer|integer[]
---@return mt.Tensor ...
function mt.broadcast_to(x, shape) end

--- Sizes of 1 repeated without a copy.
---@param shape integer|integer[]
---@return mt.Tensor ...
function Tensor:broadcast_to(shape) end

--- All combinations of an element of each vector as rows, the last one changing first.
---@param ... any
---@return mt.Tensor ...
function mt.cartesian_prod(...) end

--- Joins tensors along a dimension; the other sizes must be alike.
---@param tensors mt.Tensor[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.cat(tensors, dim) end

--- A list of at most n views of equal size; the last may be smaller.
---@param x mt.Tensor
---@param n integer
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.chunk(x, n, dim) end

--- A list of at most n views of equal size; the last may be smaller.
---@param n integer
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function Tensor:chunk(n, dim) end

--- Joins vectors as columns of a matrix.
---@param tensors mt.Tensor[]
---@return mt.Tensor ...
function mt.column_stack(tensors) end

--- The choices of r elements of a vector, in order, as rows.
---@param x mt.Tensor
---@param r? integer default 2
---@param with_replacement? boolean default false
---@return mt.Tensor ...
function mt.combinations(x, r, with_replacement) end

--- The choices of r elements of a vector, in order, as rows.
---@param r? integer default 2
---@param with_replacement? boolean default false
---@return mt.Tensor ...
function Tensor:combinations(r, with_replacement) end

--- Joins tensors along a dimension; the other sizes must be alike.
---@param tensors mt.Tensor[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.concat(tensors, dim) end

--- Joins tensors along a dimension; the other sizes must be alike.
---@param tensors mt.Tensor[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.concatenate(tensors, dim) end

--- A vector as the diagonal of a matrix, or a matrix's diagonal.
---@param x mt.Tensor
---@param diagonal? integer default 0
---@return mt.Tensor ...
function mt.diag(x, diagonal) end

--- A vector as the diagonal of a matrix, or a matrix's diagonal.
---@param diagonal? integer default 0
---@return mt.Tensor ...
function Tensor:diag(diagonal) end

--- Zeros whose diagonals are the last dimension of x.
---@param x mt.Tensor
---@param offset? integer default 0
---@param dim1? integer default -2
---@param dim2? integer default -1
---@return mt.Tensor ...
function mt.diag_embed(x, offset, dim1, dim2) end

--- Zeros whose diagonals are the last dimension of x.
---@param offset? integer default 0
---@param dim1? integer default -2
---@param dim2? integer default -1
---@return mt.Tensor ...
function Tensor:diag_embed(offset, dim1, dim2) end

--- A view of the diagonals of two dimensions, as a last dimension.
---@param x mt.Tensor
---@param offset? integer default 0
---@param dim1? integer default 1
---@param dim2? integer default 2
---@return mt.Tensor ...
function mt.diagonal(x, offset, dim1, dim2) end

--- A view of the diagonals of two dimensions, as a last dimension.
---@param offset? integer default 0
---@param dim1? integer default 1
---@param dim2? integer default 2
---@return mt.Tensor ...
function Tensor:diagonal(offset, dim1, dim2) end

--- tensor_split along dimension 3; a number must divide it.
---@param x mt.Tensor
---@param parts integer|integer[]|mt.Tensor
---@return mt.Tensor ...
function mt.dsplit(x, parts) end

--- tensor_split along dimension 3; a number must divide it.
---@param parts integer|integer[]|mt.Tensor
---@return mt.Tensor ...
function Tensor:dsplit(parts) end

--- Joins tensors along dimension 3.
---@param tensors mt.Tensor[]
---@return mt.Tensor ...
function mt.dstack(tensors) end

--- Bytes of an element.
---@return mt.Tensor ...
function Tensor:element_size() end

--- Sizes of 1 repeated without a copy; -1 keeps a size.
---@param x mt.Tensor
---@param shape integer|integer[]
---@return mt.Tensor ...
function mt.expand(x, shape) end

--- Sizes of 1 repeated without a copy; -1 keeps a size.
---@param shape integer|integer[]
---@return mt.Tensor ...
function Tensor:expand(shape) end

--- x expanded to the shape of y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.expand_as(x, y) end

--- x expanded to the shape of y.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:expand_as(y) end

--- Joins dimensions first to last into one.
---@param x mt.Tensor
---@param first? number default 1
---@param last? number default -1
---@return mt.Tensor ...
function mt.flatten(x, first, last) end

--- Joins dimensions first to last into one.
---@param first? number default 1
---@param last? number default -1
---@return mt.Tensor ...
function Tensor:flatten(first, last) end

--- The positions of dimensions in reverse.
---@param x mt.Tensor
---@param dims integer|integer[]
---@return mt.Tensor ...
function mt.flip(x, dims) end

--- The positions of dimensions in reverse.
---@param dims integer|integer[]
---@return mt.Tensor ...
function Tensor:flip(dims) end

--- The columns in reverse.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.fliplr(x) end

--- The columns in reverse.
---@return mt.Tensor ...
function Tensor:fliplr() end

--- The rows in reverse.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.flipud(x) end

--- The rows in reverse.
---@return mt.Tensor ...
function Tensor:flipud() end

--- tensor_split along dimension 2 (of a vector 1); a number must divide it.
---@param x mt.Tensor
---@param parts integer|integer[]|mt.Tensor
---@return mt.Tensor ...
function mt.hsplit(x, parts) end

--- tensor_split along dimension 2 (of a vector 1); a number must divide it.
---@param parts integer|integer[]|mt.Tensor
---@return mt.Tensor ...
function Tensor:hsplit(parts) end

--- Joins tensors along dimension 2; vectors along 1.
---@param tensors mt.Tensor[]
---@return mt.Tensor ...
function mt.hstack(tensors) end

--- One tensor for each vector, expanded to the grid of all; {indexing='xy'} exchanges the first two dimensions.
---@param ... any
---@return mt.Tensor ...
function mt.meshgrid(...) end

--- Dimensions moved to other places; the rest keep order.
---@param x mt.Tensor
---@param source mt.Tensor
---@param destination integer|integer[]
---@return mt.Tensor ...
function mt.movedim(x, source, destination) end

--- Dimensions moved to other places; the rest keep order.
---@param source mt.Tensor
---@param destination integer|integer[]
---@return mt.Tensor ...
function Tensor:movedim(source, destination) end

--- A view of `length` positions of a dimension.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param first number
---@param length integer
---@return mt.Tensor ...
function mt.narrow(x, dim, first, length) end

--- A view of `length` positions of a dimension.
---@param dim integer|integer[]
---@param first number
---@param length integer
---@return mt.Tensor ...
function Tensor:narrow(dim, first, length) end

--- The number of dimensions.
---@return mt.Tensor ...
function Tensor:ndimension() end

--- The number of elements.
---@return mt.Tensor ...
function Tensor:nelement() end

--- Positions added before and after the last dimension, then the one before it, and so on: 'constant', 'reflect', 'replicate' or 'circular'. Negative sides cut off.
---@param x mt.Tensor
---@param sides integer|integer[]
---@param mode? string default 'constant'
---@param value? number
---@return mt.Tensor ...
function mt.pad(x, sides, mode, value) end

--- Positions added before and after the last dimension, then the one before it, and so on: 'constant', 'reflect', 'replicate' or 'circular'. Negative sides cut off.
---@param sides integer|integer[]
---@param mode? string default 'constant'
---@param value? number
---@return mt.Tensor ...
function Tensor:pad(sides, mode, value) end

--- The dimensions in another order.
---@param x mt.Tensor
---@param dims integer|integer[]
---@return mt.Tensor ...
function mt.permute(x, dims) end

--- The dimensions in another order.
---@param dims integer|integer[]
---@return mt.Tensor ...
function Tensor:permute(dims) end

--- The elements in one dimension, copied where they must be.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.ravel(x) end

--- The elements in one dimension, copied where they must be.
---@return mt.Tensor ...
function Tensor:ravel() end

--- Each position repeated, a number of times or a tensor of numbers; flattened without dim.
---@param x mt.Tensor
---@param repeats integer|integer[]
---@param dim? integer|integer[]
---@return mt.Tensor ...
function mt.repeat_interleave(x, repeats, dim) end

--- Each position repeated, a number of times or a tensor of numbers; flattened without dim.
---@param repeats integer|integer[]
---@param dim? integer|integer[]
---@return mt.Tensor ...
function Tensor:repeat_interleave(repeats, dim) end

--- The same elements in another shape, copied where they must be.
---@param x mt.Tensor
---@param shape integer|integer[]
---@return mt.Tensor ...
function mt.reshape(x, shape) end

--- The same elements in another shape, copied where they must be.
---@param shape integer|integer[]
---@return mt.Tensor ...
function Tensor:reshape(shape) end

--- x in the shape of y, copied where it must be.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.reshape_as(x, y) end

--- x in the shape of y, copied where it must be.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:reshape_as(y) end

--- Shifted along dimensions; what leaves at the end comes back at the beginning.
---@param x mt.Tensor
---@param shifts integer|integer[]
---@param dims? integer|integer[]
---@return mt.Tensor ...
function mt.roll(x, shifts, dims) end

--- Shifted along dimensions; what leaves at the end comes back at the beginning.
---@param shifts integer|integer[]
---@param dims? integer|integer[]
---@return mt.Tensor ...
function Tensor:roll(shifts, dims) end

--- Turned by k quarters in the plane of two dimensions.
---@param x mt.Tensor
---@param k? integer default 1
---@param dims? integer|integer[]
---@return mt.Tensor ...
function mt.rot90(x, k, dims) end

--- Turned by k quarters in the plane of two dimensions.
---@param k? integer default 1
---@param dims? integer|integer[]
---@return mt.Tensor ...
function Tensor:rot90(k, dims) end

--- One position of a dimension, which goes away.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function mt.select(x, dim, index) end

--- One position of a dimension, which goes away.
---@param dim integer|integer[]
---@param index mt.Tensor
---@return mt.Tensor ...
function Tensor:select(dim, index) end

--- A list of views of `size` positions each (the last may be smaller), or of listed sizes.
---@param x mt.Tensor
---@param size integer|integer[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.split(x, size, dim) end

--- A list of views of `size` positions each (the last may be smaller), or of listed sizes.
---@param size integer|integer[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function Tensor:split(size, dim) end

--- A list of views of the listed sizes.
---@param x mt.Tensor
---@param sizes integer|integer[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.split_with_sizes(x, sizes, dim) end

--- A list of views of the listed sizes.
---@param sizes integer|integer[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function Tensor:split_with_sizes(sizes, dim) end

--- Without the dimensions of size 1, or without some of them.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@return mt.Tensor ...
function mt.squeeze(x, dim) end

--- Without the dimensions of size 1, or without some of them.
---@param dim? integer|integer[]
---@return mt.Tensor ...
function Tensor:squeeze(dim) end

--- Joins tensors of one shape along a new dimension.
---@param tensors mt.Tensor[]
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.stack(tensors, dim) end

--- All elements of the memory that x is a view of, in one dimension.
---@return mt.Tensor ...
function Tensor:storage() end

--- Two dimensions exchanged.
---@param x mt.Tensor
---@param dim1 integer
---@param dim2 integer
---@return mt.Tensor ...
function mt.swapaxes(x, dim1, dim2) end

--- Two dimensions exchanged.
---@param dim1 integer
---@param dim2 integer
---@return mt.Tensor ...
function Tensor:swapaxes(dim1, dim2) end

--- Two dimensions exchanged.
---@param x mt.Tensor
---@param dim1 integer
---@param dim2 integer
---@return mt.Tensor ...
function mt.swapdims(x, dim1, dim2) end

--- Two dimensions exchanged.
---@param dim1 integer
---@param dim2 integer
---@return mt.Tensor ...
function Tensor:swapdims(dim1, dim2) end

--- The transposed matrix; a vector as it is.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.t(x) end

--- The transposed matrix; a vector as it is.
---@return mt.Tensor ...
function Tensor:t() end

--- A list of views: so many parts, the first ones longer by one where it must be, or parts that begin at 1 and at the listed positions.
---@param x mt.Tensor
---@param parts integer|integer[]|mt.Tensor
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.tensor_split(x, parts, dim) end

--- A list of views: so many parts, the first ones longer by one where it must be, or parts that begin at 1 and at the listed positions.
---@param parts integer|integer[]|mt.Tensor
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function Tensor:tensor_split(parts, dim) end

--- The tensor repeated along each dimension.
---@param x mt.Tensor
---@param repeats integer|integer[]
---@return mt.Tensor ...
function mt.tile(x, repeats) end

--- The tensor repeated along each dimension.
---@param repeats integer|integer[]
---@return mt.Tensor ...
function Tensor:tile(repeats) end

--- Two dimensions exchanged.
---@param x mt.Tensor
---@param dim1 integer
---@param dim2 integer
---@return mt.Tensor ...
function mt.transpose(x, dim1, dim2) end

--- Two dimensions exchanged.
---@param dim1 integer
---@param dim2 integer
---@return mt.Tensor ...
function Tensor:transpose(dim1, dim2) end

--- x with zeros above a diagonal (0 is the main one, 1 the next above).
---@param x mt.Tensor
---@param diagonal? integer default 0
---@return mt.Tensor ...
function mt.tril(x, diagonal) end

--- x with zeros above a diagonal (0 is the main one, 1 the next above).
---@param diagonal? integer default 0
---@return mt.Tensor ...
function Tensor:tril(diagonal) end

--- tril, written into x.
---@param x mt.Tensor
---@param diagonal? integer default 0
---@return mt.Tensor ...
function mt.tril_(x, diagonal) end

--- tril, written into x.
---@param diagonal? integer default 0
---@return mt.Tensor ...
function Tensor:tril_(diagonal) end

--- x with zeros below a diagonal (0 is the main one, 1 the next above).
---@param x mt.Tensor
---@param diagonal? integer default 0
---@return mt.Tensor ...
function mt.triu(x, diagonal) end

--- x with zeros below a diagonal (0 is the main one, 1 the next above).
---@param diagonal? integer default 0
---@return mt.Tensor ...
function Tensor:triu(diagonal) end

--- triu, written into x.
---@param x mt.Tensor
---@param diagonal? integer default 0
---@return mt.Tensor ...
function mt.triu_(x, diagonal) end

--- triu, written into x.
---@param diagonal? integer default 0
---@return mt.Tensor ...
function Tensor:triu_(diagonal) end

--- A list of views, one for each position of a dimension.
---@param x mt.Tensor
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function mt.unbind(x, dim) end

--- A list of views, one for each position of a dimension.
---@param dim? integer|integer[] default 1
---@return mt.Tensor ...
function Tensor:unbind(dim) end

--- One dimension seen as several; -1 for one size that follows.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param sizes integer|integer[]
---@return mt.Tensor ...
function mt.unflatten(x, dim, sizes) end

--- One dimension seen as several; -1 for one size that follows.
---@param dim integer|integer[]
---@param sizes integer|integer[]
---@return mt.Tensor ...
function Tensor:unflatten(dim, sizes) end

--- The patches that a convolution sees, as columns: [n x c x h x w] gives [n x c*kh*kw x patches].
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param dilation? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param stride? integer|integer[] default 1
---@return mt.Tensor ...
function mt.unfold(input, kernel_size, dilation, padding, stride) end

--- A view of all windows of `size` positions, `step` apart; the last dimension is inside them.
---@param dim integer|integer[]
---@param size integer|integer[]
---@param step number
---@return mt.Tensor ...
function Tensor:unfold(dim, size, step) end

--- With a new dimension of size 1, or several.
---@param x mt.Tensor
---@param dim integer|integer[]
---@return mt.Tensor ...
function mt.unsqueeze(x, dim) end

--- With a new dimension of size 1, or several.
---@param dim integer|integer[]
---@return mt.Tensor ...
function Tensor:unsqueeze(dim) end

--- The same elements in another shape, without a copy; -1 for one size that follows.
---@param x mt.Tensor
---@param shape integer|integer[]
---@return mt.Tensor ...
function mt.view(x, shape) end

--- The same elements in another shape, without a copy; -1 for one size that follows.
---@param shape integer|integer[]
---@return mt.Tensor ...
function Tensor:view(shape) end

--- x seen in the shape of y.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@return mt.Tensor ...
function mt.view_as(x, y) end

--- x seen in the shape of y.
---@param y mt.Tensor|number
---@return mt.Tensor ...
function Tensor:view_as(y) end

--- tensor_split along dimension 1; a number must divide it.
---@param x mt.Tensor
---@param parts integer|integer[]|mt.Tensor
---@return mt.Tensor ...
function mt.vsplit(x, parts) end

--- tensor_split along dimension 1; a number must divide it.
---@param parts integer|integer[]|mt.Tensor
---@return mt.Tensor ...
function Tensor:vsplit(parts) end

--- Joins tensors as rows, along dimension 1.
---@param tensors mt.Tensor[]
---@return mt.Tensor ...
function mt.vstack(tensors) end

--- Whether all are nonzero: a Lua boolean, or a bool tensor along dim.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return any ...
function mt.all(x, dim, keepdim, options) end

--- Whether all are nonzero: a Lua boolean, or a bool tensor along dim.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return any ...
function Tensor:all(dim, keepdim, options) end

--- The largest element; NaN wins; ties share the gradient.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.amax(x, dim, keepdim, options) end

--- The largest element; NaN wins; ties share the gradient.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:amax(dim, keepdim, options) end

--- The smallest element; NaN wins; ties share the gradient.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.amin(x, dim, keepdim, options) end

--- The smallest element; NaN wins; ties share the gradient.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:amin(dim, keepdim, options) end

--- The smallest and the largest element: two tensors.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return mt.Tensor ...
function mt.aminmax(x, dim, keepdim) end

--- The smallest and the largest element: two tensors.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return mt.Tensor ...
function Tensor:aminmax(dim, keepdim) end

--- Whether one is nonzero: a Lua boolean, or a bool tensor along dim.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return any ...
function mt.any(x, dim, keepdim, options) end

--- Whether one is nonzero: a Lua boolean, or a bool tensor along dim.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return any ...
function Tensor:any(dim, keepdim, options) end

--- The position (from 1) of the first largest element.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.argmax(x, dim, keepdim, options) end

--- The position (from 1) of the first largest element.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:argmax(dim, keepdim, options) end

--- The position (from 1) of the first smallest element.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.argmin(x, dim, keepdim, options) end

--- The position (from 1) of the first smallest element.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:argmin(dim, keepdim, options) end

--- The correlations of the rows (variables) over the columns, [n x m] to [n x n].
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.corrcoef(x) end

--- The correlations of the rows (variables) over the columns, [n x m] to [n x n].
---@return mt.Tensor ...
function Tensor:corrcoef() end

--- How many elements are not 0; NaN is not.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.count_nonzero(x, dim, keepdim, options) end

--- How many elements are not 0; NaN is not.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:count_nonzero(dim, keepdim, options) end

--- The covariances of the rows (variables) over the columns (observations), [n x m] to [n x n]; of one variable 0-d. fweights: how often an observation counts; aweights: how much.
---@param x mt.Tensor
---@param correction? number default 1
---@param fweights? mt.Tensor
---@param aweights? mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.cov(x, correction, fweights, aweights, options) end

--- The covariances of the rows (variables) over the columns (observations), [n x m] to [n x n]; of one variable 0-d. fweights: how often an observation counts; aweights: how much.
---@param correction? number default 1
---@param fweights? mt.Tensor
---@param aweights? mt.Tensor
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:cov(correction, fweights, aweights, options) end

--- The largest element so far and where it stood last; NaN stays.
---@param x mt.Tensor
---@param dim integer|integer[]
---@return mt.Tensor ...
function mt.cummax(x, dim) end

--- The largest element so far and where it stood last; NaN stays.
---@param dim integer|integer[]
---@return mt.Tensor ...
function Tensor:cummax(dim) end

--- The smallest element so far and where it stood last; NaN stays.
---@param x mt.Tensor
---@param dim integer|integer[]
---@return mt.Tensor ...
function mt.cummin(x, dim) end

--- The smallest element so far and where it stood last; NaN stays.
---@param dim integer|integer[]
---@return mt.Tensor ...
function Tensor:cummin(dim) end

--- The product of all elements so far along dim.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.cumprod(x, dim, dtype, options) end

--- The product of all elements so far along dim.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:cumprod(dim, dtype, options) end

--- cumprod, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function mt.cumprod_(x, dim, dtype) end

--- cumprod, written into x.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function Tensor:cumprod_(dim, dtype) end

--- The sum of all elements so far along dim.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.cumsum(x, dim, dtype, options) end

--- The sum of all elements so far along dim.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:cumsum(dim, dtype, options) end

--- cumsum, written into x.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function mt.cumsum_(x, dim, dtype) end

--- cumsum, written into x.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function Tensor:cumsum_(dim, dtype) end

--- The integral up to each sample but the first, by the trapezoidal rule.
---@param y mt.Tensor|number
---@param x? mt.Tensor
---@param dx? number default 1
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function mt.cumulative_trapezoid(y, x, dx, dim) end

--- The integral up to each sample but the first, by the trapezoidal rule.
---@param x? mt.Tensor
---@param dx? number default 1
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function Tensor:cumulative_trapezoid(x, dx, dim) end

--- The differences of neighbours along dim, taken n times; of bools whether they differ.
---@param x mt.Tensor
---@param n? integer default 1
---@param dim? integer|integer[] default -1
---@param prepend? mt.Tensor|number
---@param append? mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.diff(x, n, dim, prepend, append, options) end

--- The differences of neighbours along dim, taken n times; of bools whether they differ.
---@param n? integer default 1
---@param dim? integer|integer[] default -1
---@param prepend? mt.Tensor|number
---@param append? mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:diff(n, dim, prepend, append, options) end

--- The p-norm of x - y. A method only: mt.dist is for several processes.
---@param y mt.Tensor|number
---@param p? number default 2
---@return mt.Tensor ...
function Tensor:dist(y, p) end

--- A list with the slopes along each dim (by default all), by finite differences: central ones inside, at the ends one-sided ones of edge_order 1 or 2. spacing: a number, or a list with a number or a vector of places for each dim.
---@param x mt.Tensor
---@param spacing? number|number[]|mt.Tensor[] default 1
---@param dim? integer|integer[]
---@param edge_order? integer default 1
---@return mt.Tensor ...
function mt.gradient(x, spacing, dim, edge_order) end

--- A list with the slopes along each dim (by default all), by finite differences: central ones inside, at the ends one-sided ones of edge_order 1 or 2. spacing: a number, or a list with a number or a vector of places for each dim.
---@param spacing? number|number[]|mt.Tensor[] default 1
---@param dim? integer|integer[]
---@param edge_order? integer default 1
---@return mt.Tensor ...
function Tensor:gradient(spacing, dim, edge_order) end

--- How many elements lie in each of bins equal parts of range={min, max} (by default the data's), or between the sorted edges of a vector, and the edges: two tensors. weight counts elements for more or less; density divides by the sum and the widths.
---@param x mt.Tensor
---@param bins integer|mt.Tensor
---@param range? number[]
---@param weight? mt.Tensor
---@param density? boolean default false
---@return mt.Tensor ...
function mt.histogram(x, bins, range, weight, density) end

--- How many elements lie in each of bins equal parts of range={min, max} (by default the data's), or between the sorted edges of a vector, and the edges: two tensors. weight counts elements for more or less; density divides by the sum and the widths.
---@param bins integer|mt.Tensor
---@param range? number[]
---@param weight? mt.Tensor
---@param density? boolean default false
---@return mt.Tensor ...
function Tensor:histogram(bins, range, weight, density) end

--- log(cumsum(exp(x))) along dim, without overflow.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logcumsumexp(x, dim, options) end

--- log(cumsum(exp(x))) along dim, without overflow.
---@param dim integer|integer[]
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logcumsumexp(dim, options) end

--- log(sum(exp(x))) without overflow; of nothing -inf.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.logsumexp(x, dim, keepdim, options) end

--- log(sum(exp(x))) without overflow; of nothing -inf.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:logsumexp(dim, keepdim, options) end

--- The largest element; with dim values and positions; with a tensor maximum(x, y).
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.max(x, dim, keepdim, options) end

--- The largest element; with dim values and positions; with a tensor maximum(x, y).
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:max(dim, keepdim, options) end

--- The mean of all elements, or along dimensions; of nothing NaN.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.mean(x, dim, keepdim, dtype, options) end

--- The mean of all elements, or along dimensions; of nothing NaN.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:mean(dim, keepdim, dtype, options) end

--- The smallest element; with dim values and positions; with a tensor minimum(x, y).
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.min(x, dim, keepdim, options) end

--- The smallest element; with dim values and positions; with a tensor minimum(x, y).
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:min(dim, keepdim, options) end

--- The mean of what is not NaN.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.nanmean(x, dim, keepdim, dtype, options) end

--- The mean of what is not NaN.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:nanmean(dim, keepdim, dtype, options) end

--- The sum of what is not NaN.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.nansum(x, dim, keepdim, dtype, options) end

--- The sum of what is not NaN.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:nansum(dim, keepdim, dtype, options) end

--- sum(|x|^p)^(1/p), by default the root of the squares' sum; p may be 0 (counts), math.huge or -math.huge. Where it is 0 its gradient is 0.
---@param x mt.Tensor
---@param p? number default 'fro'
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.norm(x, p, dim, keepdim, dtype, options) end

--- sum(|x|^p)^(1/p), by default the root of the squares' sum; p may be 0 (counts), math.huge or -math.huge. Where it is 0 its gradient is 0.
---@param p? number default 'fro'
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:norm(p, dim, keepdim, dtype, options) end

--- The product; of integers an int64, of nothing 1.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.prod(x, dim, keepdim, dtype, options) end

--- The product; of integers an int64, of nothing 1.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:prod(dim, keepdim, dtype, options) end

--- The parts along dim scaled to a p-norm of maxnorm where theirs is larger.
---@param x mt.Tensor
---@param p number
---@param dim integer|integer[]
---@param maxnorm number
---@return mt.Tensor ...
function mt.renorm(x, p, dim, maxnorm) end

--- The parts along dim scaled to a p-norm of maxnorm where theirs is larger.
---@param p number
---@param dim integer|integer[]
---@param maxnorm number
---@return mt.Tensor ...
function Tensor:renorm(p, dim, maxnorm) end

--- renorm, written into x.
---@param x mt.Tensor
---@param p number
---@param dim integer|integer[]
---@param maxnorm number
---@return mt.Tensor ...
function mt.renorm_(x, p, dim, maxnorm) end

--- renorm, written into x.
---@param p number
---@param dim integer|integer[]
---@param maxnorm number
---@return mt.Tensor ...
function Tensor:renorm_(p, dim, maxnorm) end

--- The standard deviation, the root of var; where it is 0 its gradient is 0.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.std(x, dim, keepdim, correction, unbiased, options) end

--- The standard deviation, the root of var; where it is 0 its gradient is 0.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:std(dim, keepdim, correction, unbiased, options) end

--- The standard deviation and the mean: two tensors.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@return mt.Tensor ...
function mt.std_mean(x, dim, keepdim, correction, unbiased) end

--- The standard deviation and the mean: two tensors.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@return mt.Tensor ...
function Tensor:std_mean(dim, keepdim, correction, unbiased) end

--- The sum; of integers an int64, of nothing 0.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.sum(x, dim, keepdim, dtype, options) end

--- The sum; of integers an int64, of nothing 0.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param dtype? mt.Dtype
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:sum(dim, keepdim, dtype, options) end

--- The integral along dim by the trapezoidal rule, of samples at the places x or dx apart.
---@param y mt.Tensor|number
---@param x? mt.Tensor
---@param dx? number default 1
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function mt.trapezoid(y, x, dx, dim) end

--- The integral along dim by the trapezoidal rule, of samples at the places x or dx apart.
---@param x? mt.Tensor
---@param dx? number default 1
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function Tensor:trapezoid(x, dx, dim) end

--- The same as trapezoid.
---@param y mt.Tensor|number
---@param x? mt.Tensor
---@param dx? number default 1
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function mt.trapz(y, x, dx, dim) end

--- The same as trapezoid.
---@param x? mt.Tensor
---@param dx? number default 1
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function Tensor:trapz(x, dx, dim) end

--- The variance: squared deviations over n - correction; unbiased=false is correction=0. By position keepdim comes after dim (in PyTorch unbiased): x:var(1, {unbiased=false}).
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.var(x, dim, keepdim, correction, unbiased, options) end

--- The variance: squared deviations over n - correction; unbiased=false is correction=0. By position keepdim comes after dim (in PyTorch unbiased): x:var(1, {unbiased=false}).
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:var(dim, keepdim, correction, unbiased, options) end

--- The variance and the mean: two tensors.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@return mt.Tensor ...
function mt.var_mean(x, dim, keepdim, correction, unbiased) end

--- The variance and the mean: two tensors.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param correction? number default 1
---@param unbiased? boolean
---@return mt.Tensor ...
function Tensor:var_mean(dim, keepdim, correction, unbiased) end

--- The positions that bring x into order along dim; always stable.
---@param x mt.Tensor
---@param dim? integer|integer[] default -1
---@param descending? boolean default false
---@param stable? boolean default false
---@return mt.Tensor ...
function mt.argsort(x, dim, descending, stable) end

--- The positions that bring x into order along dim; always stable.
---@param dim? integer|integer[] default -1
---@param descending? boolean default false
---@param stable? boolean default false
---@return mt.Tensor ...
function Tensor:argsort(dim, descending, stable) end

--- How often each of 1, 2, .. stands in a 1-d integer tensor, or the sum of its weights.
---@param x mt.Tensor
---@param weights? mt.Tensor
---@param minlength? integer default 0
---@return mt.Tensor ...
function mt.bincount(x, weights, minlength) end

--- How often each of 1, 2, .. stands in a 1-d integer tensor, or the sum of its weights.
---@param weights? mt.Tensor
---@param minlength? integer default 0
---@return mt.Tensor ...
function Tensor:bincount(weights, minlength) end

--- How many elements lie in each of `bins` equal parts of min..max; both 0: of x's range.
---@param x mt.Tensor
---@param bins? integer default 100
---@param min? number default 0
---@param max? number default 0
---@return mt.Tensor ...
function mt.histc(x, bins, min, max) end

--- How many elements lie in each of `bins` equal parts of min..max; both 0: of x's range.
---@param bins? integer default 100
---@param min? number default 0
---@param max? number default 0
---@return mt.Tensor ...
function Tensor:histc(bins, min, max) end

--- The k-th smallest element along dim, and its position.
---@param x mt.Tensor
---@param k integer
---@param dim? integer|integer[] default -1
---@param keepdim? boolean default false
---@return mt.Tensor ...
function mt.kthvalue(x, k, dim, keepdim) end

--- The k-th smallest element along dim, and its position.
---@param k integer
---@param dim? integer|integer[] default -1
---@param keepdim? boolean default false
---@return mt.Tensor ...
function Tensor:kthvalue(k, dim, keepdim) end

--- The lower of the two in the middle, NaN wins; with dim values and positions.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return mt.Tensor ...
function mt.median(x, dim, keepdim) end

--- The lower of the two in the middle, NaN wins; with dim values and positions.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return mt.Tensor ...
function Tensor:median(dim, keepdim) end

--- The smallest of the most frequent values along dim, and where it stands last.
---@param x mt.Tensor
---@param dim? integer|integer[] default -1
---@param keepdim? boolean default false
---@return mt.Tensor ...
function mt.mode(x, dim, keepdim) end

--- The smallest of the most frequent values along dim, and where it stands last.
---@param dim? integer|integer[] default -1
---@param keepdim? boolean default false
---@return mt.Tensor ...
function Tensor:mode(dim, keepdim) end

--- The elements in order along dimension 1, without their positions.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.msort(x) end

--- The elements in order along dimension 1, without their positions.
---@return mt.Tensor ...
function Tensor:msort() end

--- The median of what is not NaN.
---@param x mt.Tensor
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return mt.Tensor ...
function mt.nanmedian(x, dim, keepdim) end

--- The median of what is not NaN.
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return mt.Tensor ...
function Tensor:nanmedian(dim, keepdim) end

--- The quantile of what is not NaN.
---@param x mt.Tensor
---@param q number
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param interpolation? string default 'linear'
---@return mt.Tensor ...
function mt.nanquantile(x, q, dim, keepdim, interpolation) end

--- The quantile of what is not NaN.
---@param q number
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param interpolation? string default 'linear'
---@return mt.Tensor ...
function Tensor:nanquantile(q, dim, keepdim, interpolation) end

--- The element at the fraction q (0..1) of the sorted order; NaN wins. A 1-d tensor q gives a new first dimension. Also 'lower', 'higher', 'midpoint', 'nearest'.
---@param x mt.Tensor
---@param q number
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param interpolation? string default 'linear'
---@return mt.Tensor ...
function mt.quantile(x, q, dim, keepdim, interpolation) end

--- The element at the fraction q (0..1) of the sorted order; NaN wins. A 1-d tensor q gives a new first dimension. Also 'lower', 'higher', 'midpoint', 'nearest'.
---@param q number
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@param interpolation? string default 'linear'
---@return mt.Tensor ...
function Tensor:quantile(q, dim, keepdim, interpolation) end

--- The elements in order along dim, and their positions; always stable, NaN is the largest.
---@param x mt.Tensor
---@param dim? integer|integer[] default -1
---@param descending? boolean default false
---@param stable? boolean default false
---@return mt.Tensor ...
function mt.sort(x, dim, descending, stable) end

--- The elements in order along dim, and their positions; always stable, NaN is the largest.
---@param dim? integer|integer[] default -1
---@param descending? boolean default false
---@param stable? boolean default false
---@return mt.Tensor ...
function Tensor:sort(dim, descending, stable) end

--- The k largest (or smallest) elements along dim, in order, and their positions.
---@param x mt.Tensor
---@param k integer
---@param dim? integer|integer[] default -1
---@param largest? boolean default true
---@param sorted? boolean default true
---@return mt.Tensor ...
function mt.topk(x, k, dim, largest, sorted) end

--- The k largest (or smallest) elements along dim, in order, and their positions.
---@param k integer
---@param dim? integer|integer[] default -1
---@param largest? boolean default true
---@param sorted? boolean default true
---@return mt.Tensor ...
function Tensor:topk(k, dim, largest, sorted) end

--- Each value once, in order (each slice along dim); then for each element the position of its value, then how often each stands.
---@param x mt.Tensor
---@param sorted? boolean default true
---@param return_inverse? boolean default false
---@param return_counts? boolean default false
---@param dim? integer|integer[]
---@return mt.Tensor ...
function mt.unique(x, sorted, return_inverse, return_counts, dim) end

--- Each value once, in order (each slice along dim); then for each element the position of its value, then how often each stands.
---@param sorted? boolean default true
---@param return_inverse? boolean default false
---@param return_counts? boolean default false
---@param dim? integer|integer[]
---@return mt.Tensor ...
function Tensor:unique(sorted, return_inverse, return_counts, dim) end

--- Like unique, without sorting: only neighbours that are equal become one.
---@param x mt.Tensor
---@param return_inverse? boolean default false
---@param return_counts? boolean default false
---@param dim? integer|integer[]
---@return mt.Tensor ...
function mt.unique_consecutive(x, return_inverse, return_counts, dim) end

--- Like unique, without sorting: only neighbours that are equal become one.
---@param return_inverse? boolean default false
---@param return_counts? boolean default false
---@param dim? integer|integer[]
---@return mt.Tensor ...
function Tensor:unique_consecutive(return_inverse, return_counts, dim) end

--- beta * x + alpha * bmm(a, b) summed over the batch.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.addbmm(x, a, b, beta, alpha, options) end

--- beta * x + alpha * bmm(a, b) summed over the batch.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:addbmm(a, b, beta, alpha, options) end

--- addbmm, written into x.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.addbmm_(x, a, b, beta, alpha) end

--- addbmm, written into x.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:addbmm_(a, b, beta, alpha) end

--- beta * x + alpha * the product of two matrices; x broadcasts and is not read when beta is 0.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.addmm(x, a, b, beta, alpha, options) end

--- beta * x + alpha * the product of two matrices; x broadcasts and is not read when beta is 0.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:addmm(a, b, beta, alpha, options) end

--- addmm, written into x.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.addmm_(x, a, b, beta, alpha) end

--- addmm, written into x.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:addmm_(a, b, beta, alpha) end

--- beta * x + alpha * the product of a matrix and a vector.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.addmv(x, a, b, beta, alpha, options) end

--- beta * x + alpha * the product of a matrix and a vector.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:addmv(a, b, beta, alpha, options) end

--- addmv, written into x.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.addmv_(x, a, b, beta, alpha) end

--- addmv, written into x.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:addmv_(a, b, beta, alpha) end

--- beta * x + alpha * bmm(a, b).
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.baddbmm(x, a, b, beta, alpha, options) end

--- beta * x + alpha * bmm(a, b).
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:baddbmm(a, b, beta, alpha, options) end

--- baddbmm, written into x.
---@param x mt.Tensor
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function mt.baddbmm_(x, a, b, beta, alpha) end

--- baddbmm, written into x.
---@param a mt.Tensor
---@param b mt.Tensor
---@param beta? number default 1
---@param alpha? number default 1
---@return mt.Tensor ...
function Tensor:baddbmm_(a, b, beta, alpha) end

--- The products of two batches of matrices, [b x m x k] and [b x k x n].
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.bmm(x, y, options) end

--- The products of two batches of matrices, [b x m x k] and [b x k x n].
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:bmm(y, options) end

--- The p-norms of the differences of all rows: [.. x m x d] and [.. x n x d] to [.. x m x n]. The gradient at distance 0 is 0.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param p? number default 2
---@return mt.Tensor ...
function mt.cdist(x, y, p) end

--- The cross products of vectors along dim, by default the first of 3 elements.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param dim? integer|integer[]
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.cross(x, y, dim, options) end

--- The cross products of vectors along dim, by default the first of 3 elements.
---@param y mt.Tensor|number
---@param dim? integer|integer[]
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:cross(y, dim, options) end

--- The sum of the products of two vectors.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.dot(x, y, options) end

--- The sum of the products of two vectors.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:dot(y, options) end

--- Sums of products over named dimensions: einsum('bij,bjk->bik', x, y); '...' stands for dimensions that broadcast. The tensors follow, or come as one list; without '->' the letters that occur once are kept, in order.
---@param equation string
---@param ... any
---@return mt.Tensor ...
function mt.einsum(equation, ...) end

--- Another name of outer.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.ger(x, y, options) end

--- Another name of outer.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:ger(y, options) end

--- The sums of the products over the last dimensions.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.inner(x, y, options) end

--- The sums of the products over the last dimensions.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:inner(y, options) end

--- The Kronecker product: every element of x times y; sizes multiply.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.kron(x, y, options) end

--- The Kronecker product: every element of x times y; sizes multiply.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:kron(y, options) end

--- x . weight' + bias, with weight [out x in].
---@param x mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@return mt.Tensor ...
function mt.linear(x, weight, bias) end

--- x . weight' + bias, with weight [out x in].
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@return mt.Tensor ...
function Tensor:linear(weight, bias) end

--- The matrix product; batches broadcast; vectors as in torch.matmul; dtypes are promoted.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.matmul(x, y, options) end

--- The matrix product; batches broadcast; vectors as in torch.matmul; dtypes are promoted.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:matmul(y, options) end

--- The n-th power of square matrices; of their inverses for negative n.
---@param x mt.Tensor
---@param n integer
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.matrix_power(x, n, options) end

--- The n-th power of square matrices; of their inverses for negative n.
---@param n integer
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:matrix_power(n, options) end

--- The product of two matrices.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.mm(x, y, options) end

--- The product of two matrices.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:mm(y, options) end

--- The product of a matrix and a vector.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.mv(x, y, options) end

--- The product of a matrix and a vector.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:mv(y, options) end

--- The products of all pairs of two vectors, [m] and [n] to [m x n].
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.outer(x, y, options) end

--- The products of all pairs of two vectors, [m] and [n] to [m x n].
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:outer(y, options) end

--- Sums over the last dims dimensions of x and the first of y, or over the pairs of {{dims of x}, {dims of y}}, whose sizes must be equal: a size of 1 is not stretched.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param dims? integer|integer[] default 2
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.tensordot(x, y, dims, options) end

--- The sum of the diagonal of a matrix.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.trace(x) end

--- The sum of the diagonal of a matrix.
---@return mt.Tensor ...
function Tensor:trace() end

--- The sum of the products of two vectors.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function mt.vdot(x, y, options) end

--- The sum of the products of two vectors.
---@param y mt.Tensor|number
---@param options? {out?: mt.Tensor}
---@return mt.Tensor ...
function Tensor:vdot(y, options) end

--- L with x = L L' for positive-definite x, or U with x = U' U.
---@param x mt.Tensor
---@param upper? boolean default false
---@return mt.Tensor ...
function mt.cholesky(x, upper) end

--- L with x = L L' for positive-definite x, or U with x = U' U.
---@param upper? boolean default false
---@return mt.Tensor ...
function Tensor:cholesky(upper) end

--- The inverse of the matrix whose Cholesky factor x is.
---@param x mt.Tensor
---@param upper? boolean default false
---@return mt.Tensor ...
function mt.cholesky_inverse(x, upper) end

--- The inverse of the matrix whose Cholesky factor x is.
---@param upper? boolean default false
---@return mt.Tensor ...
function Tensor:cholesky_inverse(upper) end

--- The solution of A y = x from the Cholesky factor of A.
---@param x mt.Tensor
---@param factor mt.Tensor
---@param upper? boolean default false
---@return mt.Tensor ...
function mt.cholesky_solve(x, factor, upper) end

--- The solution of A y = x from the Cholesky factor of A.
---@param factor mt.Tensor
---@param upper? boolean default false
---@return mt.Tensor ...
function Tensor:cholesky_solve(factor, upper) end

--- The determinants of square matrices.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.det(x) end

--- The determinants of square matrices.
---@return mt.Tensor ...
function Tensor:det() end

--- The inverses of square matrices; a singular one is an error.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.inverse(x) end

--- The inverses of square matrices; a singular one is an error.
---@return mt.Tensor ...
function Tensor:inverse() end

--- The logarithm of the determinant; nan where it is negative.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.logdet(x) end

--- The logarithm of the determinant; nan where it is negative.
---@return mt.Tensor ...
function Tensor:logdet() end

--- The exponential of square matrices, the sum of x^k / k!.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.matrix_exp(x) end

--- The exponential of square matrices, the sum of x^k / k!.
---@return mt.Tensor ...
function Tensor:matrix_exp() end

--- The Moore-Penrose inverse.
---@param x mt.Tensor
---@param rcond? number default 1e-15
---@return mt.Tensor ...
function mt.pinverse(x, rcond) end

--- The Moore-Penrose inverse.
---@param rcond? number default 1e-15
---@return mt.Tensor ...
function Tensor:pinverse(rcond) end

--- The sign of the determinant and the logarithm of its size: two tensors.
---@param x mt.Tensor
---@return mt.Tensor ...
function mt.slogdet(x) end

--- The sign of the determinant and the logarithm of its size: two tensors.
---@return mt.Tensor ...
function Tensor:slogdet() end

--- Means over windows that cut the last dimension into output_size parts; of floats only.
---@param input mt.Tensor
---@param output_size integer|integer[]
---@return mt.Tensor ...
function mt.adaptive_avg_pool1d(input, output_size) end

--- Means over windows that cut the last two dimensions into output_size parts: a number or {h, w}; -1 keeps a size; of floats only.
---@param input mt.Tensor
---@param output_size integer|integer[]
---@return mt.Tensor ...
function mt.adaptive_avg_pool2d(input, output_size) end

--- Means over windows that cut the last three dimensions into output_size parts: a number or {d, h, w}; -1 keeps a size; of floats only.
---@param input mt.Tensor
---@param output_size integer|integer[]
---@return mt.Tensor ...
function mt.adaptive_avg_pool3d(input, output_size) end

--- The largest of windows that cut the last dimension into output_size parts; with return_indices also its position (from 1); of floats only.
---@param input mt.Tensor
---@param output_size integer|integer[]
---@param return_indices? boolean default false
---@return mt.Tensor ...
function mt.adaptive_max_pool1d(input, output_size, return_indices) end

--- The largest of windows that cut the last two dimensions into output_size parts: a number or {h, w}, -1 keeps a size; with return_indices also its position in its plane, counted row by row from 1; of floats only.
---@param input mt.Tensor
---@param output_size integer|integer[]
---@param return_indices? boolean default false
---@return mt.Tensor ...
function mt.adaptive_max_pool2d(input, output_size, return_indices) end

--- The grid for grid_sample of maps theta [n x 2 x 3] for a size {n, c, h, w}, or [n x 3 x 4] for {n, c, d, h, w}.
---@param theta mt.Tensor
---@param size integer|integer[]
---@param align_corners? boolean default false
---@return mt.Tensor ...
function mt.affine_grid(theta, size, align_corners) end

--- The mean of each window of the last dimension; of floats only.
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param ceil_mode? boolean default false
---@param count_include_pad? boolean default true
---@return mt.Tensor ...
function mt.avg_pool1d(input, kernel_size, stride, padding, ceil_mode, count_include_pad) end

--- The mean of each window of the last two dimensions; of floats only.
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param ceil_mode? boolean default false
---@param count_include_pad? boolean default true
---@param divisor_override? number
---@return mt.Tensor ...
function mt.avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) end

--- The mean of each window of the last three dimensions; of floats only.
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param ceil_mode? boolean default false
---@param count_include_pad? boolean default true
---@param divisor_override? number
---@return mt.Tensor ...
function mt.avg_pool3d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) end

--- Cross-correlation of [n x in x length] with [out x in/groups x kernel]; padding: a number, 'same' or 'valid'; of floats only.
---@param input mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@param stride? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param dilation? integer|integer[] default 1
---@param groups? integer default 1
---@return mt.Tensor ...
function mt.conv1d(input, weight, bias, stride, padding, dilation, groups) end

--- MiniTorch's: out[i] = sum of x[i + k] w[k] (reverse: x[i - k]), zeros beyond the ends; [n x in x t] and [out x in x k] give [n x out x t].
---@param input mt.Tensor
---@param weight mt.Tensor
---@param reverse? boolean default false
---@return mt.Tensor ...
function mt.conv1d_anchored(input, weight, reverse) end

--- Cross-correlation of [n x in x h x w] with [out x in/groups x kh x kw]; stride, padding and dilation: a number or {h, w}; padding also 'same' or 'valid'; of floats only.
---@param input mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@param stride? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param dilation? integer|integer[] default 1
---@param groups? integer default 1
---@return mt.Tensor ...
function mt.conv2d(input, weight, bias, stride, padding, dilation, groups) end

--- conv1d_anchored over two dimensions: [n x in x h x w] and [out x in x kh x kw].
---@param input mt.Tensor
---@param weight mt.Tensor
---@param reverse? boolean default false
---@return mt.Tensor ...
function mt.conv2d_anchored(input, weight, reverse) end

--- Cross-correlation of [n x in x d x h x w] with [out x in/groups x kd x kh x kw]; stride, padding and dilation: a number or {d, h, w}; padding also 'same' or 'valid'. It is conv2d over the windows of the depth, which take kd times the input's memory; of floats only.
---@param input mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@param stride? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param dilation? integer|integer[] default 1
---@param groups? integer default 1
---@return mt.Tensor ...
function mt.conv3d(input, weight, bias, stride, padding, dilation, groups) end

--- The gradient of conv1d for its input, as an operation; weight [in x out/groups x kernel]; of floats only.
---@param input mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@param stride? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param output_padding? integer|integer[] default 0
---@param groups? integer default 1
---@param dilation? integer|integer[] default 1
---@return mt.Tensor ...
function mt.conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation) end

--- The gradient of conv2d for its input, as an operation; weight [in x out/groups x kh x kw]; of floats only.
---@param input mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@param stride? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param output_padding? integer|integer[] default 0
---@param groups? integer default 1
---@param dilation? integer|integer[] default 1
---@return mt.Tensor ...
function mt.conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation) end

--- The gradient of conv3d for its input, as an operation; weight [in x out/groups x kd x kh x kw]; of floats only.
---@param input mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@param stride? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param output_padding? integer|integer[] default 0
---@param groups? integer default 1
---@param dilation? integer|integer[] default 1
---@return mt.Tensor ...
function mt.conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation) end

--- The sum of patches at their places: the opposite of unfold.
---@param input mt.Tensor
---@param output_size integer|integer[]
---@param kernel_size integer|integer[]
---@param dilation? integer|integer[] default 1
---@param padding? integer|integer[] default 0
---@param stride? integer|integer[] default 1
---@return mt.Tensor ...
function mt.fold(input, output_size, kernel_size, dilation, padding, stride) end

--- [n x c x h x w] at the points x, y of grid [n x h' x w' x 2], or [n x c x d x h x w] at x, y, z of [n x d' x h' x w' x 3], which run from -1 to 1. mode 'bilinear', 'nearest' or 'bicubic'; padding_mode: beyond the edges 'zeros', 'border' or 'reflection'; align_corners: -1 and 1 are the centres of the outermost pixels, not their edges.
---@param input mt.Tensor
---@param grid mt.Tensor
---@param mode? string default 'bilinear'
---@param padding_mode? string default 'zeros'
---@param align_corners? boolean default false
---@return mt.Tensor ...
function mt.grid_sample(input, grid, mode, padding_mode, align_corners) end

--- [n x c x ..] at another size: mode 'nearest', 'nearest-exact', 'area' (means) of 1 to 3 dimensions, 'linear' of 1, 'bilinear' or 'bicubic' of 2, 'trilinear' of 3.
---@param input mt.Tensor
---@param size? integer|integer[]
---@param scale_factor? number
---@param mode? string default 'nearest'
---@param align_corners? boolean
---@return mt.Tensor ...
function mt.interpolate(input, size, scale_factor, mode, align_corners) end

--- The largest of each window of the last dimension; with return_indices also its position (from 1); of floats only.
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param dilation? integer|integer[] default 1
---@param ceil_mode? boolean default false
---@param return_indices? boolean default false
---@return mt.Tensor ...
function mt.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices) end

--- The largest of each window; with return_indices also its position in its plane, counted row by row from 1; of floats only.
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param dilation? integer|integer[] default 1
---@param ceil_mode? boolean default false
---@param return_indices? boolean default false
---@return mt.Tensor ...
function mt.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices) end

--- The largest of each window of the last three dimensions: a number or {d, h, w}; with return_indices also its position in its volume, counted from 1; of floats only.
---@param input mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param dilation? integer|integer[] default 1
---@param ceil_mode? boolean default false
---@param return_indices? boolean default false
---@return mt.Tensor ...
function mt.max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices) end

--- Zeros with the input's values at the positions that max_pool2d returned for them.
---@param input mt.Tensor
---@param indices mt.Tensor
---@param kernel_size integer|integer[]
---@param stride? integer|integer[]
---@param padding? integer|integer[] default 0
---@param output_size? integer|integer[]
---@return mt.Tensor ...
function mt.max_unpool2d(input, indices, kernel_size, stride, padding, output_size) end

--- Elements dropped to where selu is flat, with probability p; mean and variance stay. For training only when told so, as in PyTorch.
---@param x mt.Tensor
---@param p? number default 0.5
---@param training? boolean default false
---@return mt.Tensor ...
function mt.alpha_dropout(x, p, training) end

--- Elements dropped to where selu is flat, with probability p; mean and variance stay. For training only when told so, as in PyTorch.
---@param p? number default 0.5
---@param training? boolean default false
---@return mt.Tensor ...
function Tensor:alpha_dropout(p, training) end

--- Mean 0 and variance 1 over all but dimension 2; in training with the batch's statistics, which move the running ones (floats, or nil) in place.
---@param input mt.Tensor
---@param running_mean? mt.Tensor
---@param running_var? mt.Tensor
---@param weight? mt.Tensor
---@param bias? mt.Tensor
---@param training? boolean default false
---@param momentum? number default 0.1
---@param eps? number default 1e-5
---@return mt.Tensor ...
function mt.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps) end

--- input1 . weight[o] . input2 for each o; weight [out x in1 x in2].
---@param input1 mt.Tensor
---@param input2 mt.Tensor
---@param weight mt.Tensor
---@param bias? mt.Tensor
---@return mt.Tensor ...
function mt.bilinear(input1, input2, weight, bias) end

--- -log of the probability of the target, for x in 0..1 (beyond: an error; on a GPU NaN).
---@param x mt.Tensor
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.binary_cross_entropy(x, target, weight, reduction) end

--- -log of the probability of the target, for x in 0..1 (beyond: an error; on a GPU NaN).
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:binary_cross_entropy(target, weight, reduction) end

--- The same for raw scores, before the sigmoid; pos_weight counts targets of 1 so often.
---@param x mt.Tensor
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@param pos_weight? mt.Tensor
---@return mt.Tensor ...
function mt.binary_cross_entropy_with_logits(x, target, weight, reduction, pos_weight) end

--- The same for raw scores, before the sigmoid; pos_weight counts targets of 1 so often.
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@param pos_weight? mt.Tensor
---@return mt.Tensor ...
function Tensor:binary_cross_entropy_with_logits(target, weight, reduction, pos_weight) end

--- The channels of [n x c x ..] dealt out to groups in turn: c as [groups x c / groups], turned.
---@param input mt.Tensor
---@param groups integer
---@return mt.Tensor ...
function mt.channel_shuffle(input, groups) end

--- 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1.
---@param input1 mt.Tensor
---@param input2 mt.Tensor
---@param target mt.Tensor
---@param margin? number default 0
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.cosine_embedding_loss(input1, input2, target, margin, reduction) end

--- The cosine of the angle between vectors along dim; their lengths are held above eps.
---@param input1 mt.Tensor
---@param input2 mt.Tensor
---@param dim? integer|integer[] default 2
---@param eps? number default 1e-8
---@return mt.Tensor ...
function mt.cosine_similarity(input1, input2, dim, eps) end

--- -log of the softmax of the target classes (from 1), for scores [n x classes x ..]; weight for each class. A float target of x's shape holds probabilities.
---@param x mt.Tensor
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param ignore_index? integer default -100
---@param reduction? string default 'mean'
---@param label_smoothing? number default 0
---@return mt.Tensor ...
function mt.cross_entropy(x, target, weight, ignore_index, reduction, label_smoothing) end

--- -log of the softmax of the target classes (from 1), for scores [n x classes x ..]; weight for each class. A float target of x's shape holds probabilities.
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param ignore_index? integer default -100
---@param reduction? string default 'mean'
---@param label_smoothing? number default 0
---@return mt.Tensor ...
function Tensor:cross_entropy(target, weight, ignore_index, reduction, label_smoothing) end

--- -log of the probability that log_probs [time x n x classes] spell the targets [n x length] (or all in one row; from 1, as blank is). Lengths: a tensor or a list. 'mean' is of each loss by its target's length. The gradient takes log_probs to be from log_softmax, as in PyTorch; there is no second one. Runs on the CPU.
---@param log_probs mt.Tensor
---@param targets mt.Tensor
---@param input_lengths mt.Tensor|integer|integer[]
---@param target_lengths mt.Tensor|integer|integer[]
---@param blank? integer default 1
---@param reduction? string default 'mean'
---@param zero_infinity? boolean default false
---@return mt.Tensor ...
function mt.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity) end

--- Elements zeroed with probability p, the others scaled by 1 / (1 - p).
---@param x mt.Tensor
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function mt.dropout(x, p, training) end

--- Elements zeroed with probability p, the others scaled by 1 / (1 - p).
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function Tensor:dropout(p, training) end

--- Whole channels of [n x c x length] or [c x length] zeroed with probability p, the others scaled by 1 / (1 - p).
---@param x mt.Tensor
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function mt.dropout1d(x, p, training) end

--- Whole channels of [n x c x length] or [c x length] zeroed with probability p, the others scaled by 1 / (1 - p).
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function Tensor:dropout1d(p, training) end

--- Whole channels of [n x c x h x w] zeroed with probability p, the others scaled by 1 / (1 - p); [n x c x length] is taken as by dropout1d.
---@param x mt.Tensor
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function mt.dropout2d(x, p, training) end

--- Whole channels of [n x c x h x w] zeroed with probability p, the others scaled by 1 / (1 - p); [n x c x length] is taken as by dropout1d.
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function Tensor:dropout2d(p, training) end

--- Whole channels of [n x c x d x h x w] or [c x d x h x w] zeroed with probability p, the others scaled by 1 / (1 - p).
---@param x mt.Tensor
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function mt.dropout3d(x, p, training) end

--- Whole channels of [n x c x d x h x w] or [c x d x h x w] zeroed with probability p, the others scaled by 1 / (1 - p).
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function Tensor:dropout3d(p, training) end

--- dropout in place.
---@param x mt.Tensor
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function mt.dropout_(x, p, training) end

--- dropout in place.
---@param p? number default 0.5
---@param training? boolean default true
---@return mt.Tensor ...
function Tensor:dropout_(p, training) end

--- Rows of weight [entries x features] by ids (from 1); the row padding_idx gets no gradient.
---@param ids mt.Tensor
---@param weight mt.Tensor
---@param padding_idx? integer
---@return mt.Tensor ...
function mt.embedding(ids, weight, padding_idx) end

--- 'mean', 'sum' or 'max' of the rows of weight over bags of ids: the rows of [bags x ids], or parts of ids in one row, each beginning at its offset (from 1). per_sample_weights: factors of a sum; include_last_offset: the last offset is the end (the number of ids + 1); padding_idx: an id that does not count. Empty bags are 0.
---@param ids mt.Tensor
---@param weight mt.Tensor
---@param offsets? mt.Tensor
---@param mode? string default 'mean'
---@param per_sample_weights? mt.Tensor
---@param include_last_offset? boolean default false
---@param padding_idx? integer
---@return mt.Tensor ...
function mt.embedding_bag(ids, weight, offsets, mode, per_sample_weights, include_last_offset, padding_idx) end

--- (log var + (x - target)^2 / var) / 2 for a variance of x's shape, or without its last dimension, or with size 1 in one, or a number; full: with its constant.
---@param x mt.Tensor
---@param target mt.Tensor
---@param var mt.Tensor|number
---@param full? boolean default false
---@param eps? number default 1e-6
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.gaussian_nll_loss(x, target, var, full, eps, reduction) end

--- (log var + (x - target)^2 / var) / 2 for a variance of x's shape, or without its last dimension, or with size 1 in one, or a number; full: with its constant.
---@param target mt.Tensor
---@param var mt.Tensor|number
---@param full? boolean default false
---@param eps? number default 1e-6
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:gaussian_nll_loss(target, var, full, eps, reduction) end

--- One half of dim times the sigmoid of the other.
---@param x mt.Tensor
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function mt.glu(x, dim) end

--- One half of dim times the sigmoid of the other.
---@param dim? integer|integer[] default -1
---@return mt.Tensor ...
function Tensor:glu(dim) end

--- Mean 0 and variance 1 over each group of channels of each image.
---@param input mt.Tensor
---@param num_groups integer
---@param weight? mt.Tensor
---@param bias? mt.Tensor
---@param eps? number default 1e-5
---@return mt.Tensor ...
function mt.group_norm(input, num_groups, weight, bias, eps) end

--- input where the target is 1, max(0, margin - input) where it is -1.
---@param input mt.Tensor
---@param target mt.Tensor
---@param margin? number default 1
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.hinge_embedding_loss(input, target, margin, reduction) end

--- With d = |x - target|: d^2 / 2 up to delta, delta (d - delta / 2) beyond.
---@param x mt.Tensor
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@param delta? number default 1
---@return mt.Tensor ...
function mt.huber_loss(x, target, reduction, delta) end

--- With d = |x - target|: d^2 / 2 up to delta, delta (d - delta / 2) beyond.
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@param delta? number default 1
---@return mt.Tensor ...
function Tensor:huber_loss(target, reduction, delta) end

--- Mean 0 and variance 1 over each channel of each image alone.
---@param input mt.Tensor
---@param running_mean? mt.Tensor
---@param running_var? mt.Tensor
---@param weight? mt.Tensor
---@param bias? mt.Tensor
---@param use_input_stats? boolean default true
---@param momentum? number default 0.1
---@param eps? number default 1e-5
---@return mt.Tensor ...
function mt.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps) end

--- target (log target - x) for log-probabilities x, broadcast; reduction also 'batchmean', over the first size of x.
---@param x mt.Tensor
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@param log_target? boolean default false
---@return mt.Tensor ...
function mt.kl_div(x, target, reduction, log_target) end

--- target (log target - x) for log-probabilities x, broadcast; reduction also 'batchmean', over the first size of x.
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@param log_target? boolean default false
---@return mt.Tensor ...
function Tensor:kl_div(target, reduction, log_target) end

--- The mean absolute difference; reduction 'mean', 'sum' or 'none'.
---@param x mt.Tensor
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.l1_loss(x, target, reduction) end

--- The mean absolute difference; reduction 'mean', 'sum' or 'none'.
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:l1_loss(target, reduction) end

--- Mean 0 and variance 1 over the last dimensions, whose sizes are normalized_shape.
---@param input mt.Tensor
---@param normalized_shape integer|integer[]
---@param weight? mt.Tensor
---@param bias? mt.Tensor
---@param eps? number default 1e-5
---@return mt.Tensor ...
function mt.layer_norm(input, normalized_shape, weight, bias, eps) end

--- log of softmax, exact far out, calculated in dtype.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function mt.log_softmax(x, dim, dtype) end

--- log of softmax, exact far out, calculated in dtype.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function Tensor:log_softmax(dim, dtype) end

--- max(0, -target (input1 - input2) + margin); the target is 1 or -1.
---@param input1 mt.Tensor
---@param input2 mt.Tensor
---@param target mt.Tensor
---@param margin? number default 0
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.margin_ranking_loss(input1, input2, target, margin, reduction) end

--- The mean squared difference.
---@param x mt.Tensor
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.mse_loss(x, target, reduction) end

--- The mean squared difference.
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:mse_loss(target, reduction) end

--- The mean over the other classes of max(0, margin - x[target] + x[class])^p, for scores [n x classes] and targets from 1; p is 1 or 2, weight for each class.
---@param x mt.Tensor
---@param target mt.Tensor
---@param p? number default 1
---@param margin? number default 1
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.multi_margin_loss(x, target, p, margin, weight, reduction) end

--- The mean over the other classes of max(0, margin - x[target] + x[class])^p, for scores [n x classes] and targets from 1; p is 1 or 2, weight for each class.
---@param target mt.Tensor
---@param p? number default 1
---@param margin? number default 1
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:multi_margin_loss(target, p, margin, weight, reduction) end

--- For scores [n x classes] and as many targets: in each row class positions (from 1), ended by -1. max(0, 1 - x[target] + x[class]) over them and all classes that are not, by classes.
---@param x mt.Tensor
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.multilabel_margin_loss(x, target, reduction) end

--- For scores [n x classes] and as many targets: in each row class positions (from 1), ended by -1. max(0, 1 - x[target] + x[class]) over them and all classes that are not, by classes.
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:multilabel_margin_loss(target, reduction) end

--- -x of the target classes (from 1), for log-probabilities [n x classes x ..].
---@param x mt.Tensor
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param ignore_index? integer default -100
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.nll_loss(x, target, weight, ignore_index, reduction) end

--- -x of the target classes (from 1), for log-probabilities [n x classes x ..].
---@param target mt.Tensor
---@param weight? mt.Tensor
---@param ignore_index? integer default -100
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:nll_loss(target, weight, ignore_index, reduction) end

--- x over its p-norm along dim, which is held above eps.
---@param x mt.Tensor
---@param p? number default 2
---@param dim? integer|integer[] default 2
---@param eps? number default 1e-12
---@return mt.Tensor ...
function mt.normalize(x, p, dim, eps) end

--- x over its p-norm along dim, which is held above eps.
---@param p? number default 2
---@param dim? integer|integer[] default 2
---@param eps? number default 1e-12
---@return mt.Tensor ...
function Tensor:normalize(p, dim, eps) end

--- int64 zeros with a one at each id (from 1) along a new last dimension.
---@param x mt.Tensor
---@param num_classes? integer
---@return mt.Tensor ...
function mt.one_hot(x, num_classes) end

--- int64 zeros with a one at each id (from 1) along a new last dimension.
---@param num_classes? integer
---@return mt.Tensor ...
function Tensor:one_hot(num_classes) end

--- The p-norm of input1 - input2 + eps along the last dimension.
---@param input1 mt.Tensor
---@param input2 mt.Tensor
---@param p? number default 2
---@param eps? number default 1e-6
---@param keepdim? boolean default false
---@return mt.Tensor ...
function mt.pairwise_distance(input1, input2, p, eps, keepdim) end

--- [.. x c r^2 x h x w] as [.. x c x h r x w r].
---@param input mt.Tensor
---@param upscale_factor integer
---@return mt.Tensor ...
function mt.pixel_shuffle(input, upscale_factor) end

--- [.. x c x h r x w r] as [.. x c r^2 x h x w].
---@param input mt.Tensor
---@param downscale_factor integer
---@return mt.Tensor ...
function mt.pixel_unshuffle(input, downscale_factor) end

--- exp(x) - target x; without log_input x - target log(x + eps); full: with Stirling's term of targets above 1.
---@param x mt.Tensor
---@param target mt.Tensor
---@param log_input? boolean default true
---@param full? boolean default false
---@param eps? number default 1e-8
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.poisson_nll_loss(x, target, log_input, full, eps, reduction) end

--- exp(x) - target x; without log_input x - target log(x + eps); full: with Stirling's term of targets above 1.
---@param target mt.Tensor
---@param log_input? boolean default true
---@param full? boolean default false
---@param eps? number default 1e-8
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function Tensor:poisson_nll_loss(target, log_input, full, eps, reduction) end

--- The input over the root of its mean square, over the last dimensions.
---@param input mt.Tensor
---@param normalized_shape integer|integer[]
---@param weight? mt.Tensor
---@param eps? number
---@return mt.Tensor ...
function mt.rms_norm(input, normalized_shape, weight, eps) end

--- softmax(query key' scale + mask) value over [.. x length x features]; a bool mask is true where a key takes part. enable_gqa: heads of key and value (dimension -3) are repeated.
---@param query mt.Tensor
---@param key mt.Tensor
---@param value number
---@param attn_mask? mt.Tensor
---@param dropout_p? number default 0
---@param is_causal? boolean default false
---@param scale? integer|integer[]
---@param enable_gqa? boolean default false
---@return mt.Tensor ...
function mt.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) end

--- With d = |x - target|: d^2 / (2 beta) below beta, d - beta / 2 beyond.
---@param x mt.Tensor
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@param beta? number default 1
---@return mt.Tensor ...
function mt.smooth_l1_loss(x, target, reduction, beta) end

--- With d = |x - target|: d^2 / (2 beta) below beta, d - beta / 2 beyond.
---@param target mt.Tensor
---@param reduction? string default 'mean'
---@param beta? number default 1
---@return mt.Tensor ...
function Tensor:smooth_l1_loss(target, reduction, beta) end

--- exp(x) / sum of exp(x) along dim, calculated in dtype.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function mt.softmax(x, dim, dtype) end

--- exp(x) / sum of exp(x) along dim, calculated in dtype.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function Tensor:softmax(dim, dtype) end

--- softmax of -x, calculated in dtype.
---@param x mt.Tensor
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function mt.softmin(x, dim, dtype) end

--- softmax of -x, calculated in dtype.
---@param dim integer|integer[]
---@param dtype? mt.Dtype
---@return mt.Tensor ...
function Tensor:softmin(dim, dtype) end

--- max(0, distance to the positive - distance to the negative + margin).
---@param anchor mt.Tensor
---@param positive mt.Tensor
---@param negative mt.Tensor
---@param margin? number default 1
---@param p? number default 2
---@param eps? number default 1e-6
---@param swap? boolean default false
---@param reduction? string default 'mean'
---@return mt.Tensor ...
function mt.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction) end

--- Calls fn with recording on, also inside no_grad; returns its results.
---@param fn function
---@param ... any
---@return mt.Tensor ...
function mt.enable_grad(fn, ...) end

--- The gradients of outputs (one tensor or a list) by inputs: a list for a list, one tensor for one. No .grad changes. An input without part is an error, or false with allow_unused.
---@param outputs mt.Tensor|mt.Tensor[]
---@param inputs mt.Tensor|mt.Tensor[]
---@param grad_outputs? mt.Tensor|mt.Tensor[]
---@param retain_graph? boolean
---@param create_graph? boolean default false
---@param allow_unused? boolean default false
---@return mt.Tensor ...
function mt.grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused) end

--- Compares the gradients of fn(inputs..), all float64, with finite differences; an error where they differ, or where two backwards differ by more than nondet_tol.
---@param fn function
---@param inputs mt.Tensor|mt.Tensor[]
---@param eps? number default 1e-6
---@param atol? number default 1e-5
---@param rtol? number default 1e-3
---@param nondet_tol? number default 0
---@return boolean ...
function mt.gradcheck(fn, inputs, eps, atol, rtol, nondet_tol) end

--- gradcheck for the gradients of the gradients.
---@param fn function
---@param inputs mt.Tensor|mt.Tensor[]
---@param eps? number default 1e-6
---@param atol? number default 1e-5
---@param rtol? number default 1e-3
---@param nondet_tol? number default 0
---@return boolean ...
function mt.gradgradcheck(fn, inputs, eps, atol, rtol, nondet_tol) end

--- Whether operations are recorded.
---@return boolean ...
function mt.is_grad_enabled() end

--- Calls fn with the arguments, without recording; returns its results.
---@param fn function
---@param ... any
---@return any ...
function mt.no_grad(fn, ...) end

--- Calls fn(g) with the gradient of x in every backward; what fn returns takes its place. Returns a handle with h:remove().
---@param fn function
---@return mt.Tensor ...
function Tensor:register_hook(fn) end

--- Keeps the gradient of a computed tensor in x.grad too; returns x.
---@return mt.Tensor ...
function Tensor:retain_grad() end

--- Errors name the line that recorded an operation, and the first NaN is an error. Slow.
---@param enabled boolean
---@return mt.Tensor ...
function mt.set_debug(enabled) end

--- Switches recording on or off; returns the old state.
---@param enabled boolean
---@return boolean ...
function mt.set_grad_enabled(enabled) end

--- Calls fn with the arguments and returns its results; inside, products, linear and convolutions of float32 run in 16 bits (bfloat16 on the CPU, float16 on a GPU), exp, log, sums, norms and losses in float32, all else in the widest type it meets. Call backward outside. With options as one table: mt.autocast{fn, x, dtype='bfloat16', device='cuda', enabled=true}.
---@param fn function
---@param ... any
---@return mt.Tensor ...
function mt.autocast(fn, ...) end

--- Whether mt.autocast is under way for a kind of device.
---@param device? string default 'cpu'
---@return mt.Tensor ...
function mt.is_autocast_enabled(device) end

--- a / b rounded up, for whole a from 0 and b from 1: how many blocks of b threads cover a elements.
---@param a integer
---@param b integer
---@return integer ...
function mt.cdiv(a, b) end

--- The options of set_printoptions as a table.
---@return mt.Tensor ...
function mt.get_printoptions() end

--- How tensors are written; what is not given stays. profile='default' restores everything, 'short' and 'full' are others; sci_mode is true, false, or chosen for each tensor.
---@param precision? integer
---@param threshold? integer
---@param edgeitems? integer
---@param linewidth? integer
---@param profile? string
---@param sci_mode? boolean
---@return mt.Tensor ...
function mt.set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode) end

--- A typed FFI pointer to the elements, 0-based: contiguous CPU tensors only, valid while x is referenced; to the bits of float16 and bfloat16. Gradients do not notice what is written through it: write before the forward or after the backward.
---@return any ...
function Tensor:data() end

--- An iterator over all positions, the last dimension fastest: for i, j in x:indices() do.
---@return any ...
function Tensor:indices() end

--- An operation with your own gradient, F = mt.Function{forward=function(ctx, ...) .. end, backward=function(ctx, g1, ...) .. end}, called F(...). ctx:save_for_backward(tensors..), ctx:saved_tensors() (several values); backward gets a gradient for each result and returns one for each argument, nil for none.
---@param forward function
---@param backward function
---@param name? string default 'Function'
---@return mt.Tensor ...
function mt.Function(forward, backward, name) end

--- Scales a loss so that small gradients of float16 do not become 0, as torch.amp.GradScaler: s:scale(loss):backward(), s:step(opt), s:update(); also s:unscale_(opt), s:get_scale(), s:state_dict(). Steps with infinite or NaN gradients are left out and shrink the scale.
---@param init_scale? number default 65536
---@param growth_factor? number default 2
---@param backoff_factor? number default 0.5
---@param growth_interval? number default 2000
---@param enabled? boolean default true
---@return mt.Tensor ...
function mt.GradScaler(init_scale, growth_factor, backoff_factor, growth_interval, enabled) end

--- Not here: mt.range(first, last[, step]) includes both ends.
---@param ... any
---@return mt.Tensor ...
function mt.arange(...) end

--- The script's flags, mt.args{hidden=100, rate=0.05, dataset={'split', 'xor'}}: types from the defaults, a list is a choice; --device --threads --seed --help always. Returns their values.
---@param ... any
---@return mt.Tensor ...
function mt.args(...) end

--- How many threads kernels use.
---@return integer ...
function mt.get_num_threads() end

--- How a function is called and what it does; without a name all names.
---@param name? string
---@return any ...
function mt.help(name) end

--- The second derivatives of fn(inputs..), which returns one number: for one input a tensor of its shape twice; for a list H[input][input].
---@param fn function
---@param inputs mt.Tensor|mt.Tensor[]
---@param create_graph? boolean default false
---@return mt.Tensor ...
function mt.hessian(fn, inputs, create_graph) end

--- All derivatives of fn(inputs..) by its inputs: of one result by one input a tensor of the shape result then input; lists of inputs or results give lists, J[result][input].
---@param fn function
---@param inputs mt.Tensor|mt.Tensor[]
---@param create_graph? boolean default false
---@return mt.Tensor ...
function mt.jacobian(fn, inputs, create_graph) end

--- fn(inputs..), and J v: how the results change when the inputs move along v. v has the inputs' shapes.
---@param fn function
---@param inputs mt.Tensor|mt.Tensor[]
---@param v? mt.Tensor
---@return mt.Tensor ...
function mt.jvp(fn, inputs, v) end

--- A grid kernel without a GPU: calls a Lua function once for each cell, in order. launch_kernel(fn, gx, gy, ..) and launch_kernel(fn, {gx, gy}, ..), in 1 to 3 dimensions, call fn(i, j, ..); launch_kernel(fn, { {bx, by}, {tx, ty} }, ..) is blocks and threads and calls fn(block_idx, thread_idx, block_dim, ..), tables with x, y, z, positions from 1: i = (block_idx.x - 1) * block_dim.x + thread_idx.x.
---@param fn function
---@param grid integer|table
---@param ... any
---@return mt.Tensor ...
function mt.launch_kernel(fn, grid, ...) end

--- Bytes of the CPU: allocated (in tensors), peak, reserved (in tensors or kept for reuse); and how many allocations this thread has made. mt.cuda.memory_stats() is of a GPU.
---@return any ...
function mt.memory_stats() end

--- What fn() spends its time on: prints a row for each operation, gradient and kernel, largest self time first (sort: 'self', 'total', 'cuda', 'calls'; top: how many), writes a trace for Perfetto to path. Returns the rows {name, kind, calls, self_cpu, cpu_total, cpu_avg, self_cuda, cuda_total, cuda_avg} in seconds, with wall, outside and cuda in all, then what fn returned. As a schedule of torch.profiler: fn is called wait times, warmup times under the profiler, of which nothing is kept, then active times.
---@param fn function
---@param path? string
---@param sort? string default 'self'
---@param top? integer
---@param quiet? boolean default false
---@param wait? integer default 0
---@param warmup? integer default 0
---@param active? integer default 1
---@return any ...
function mt.profile(fn, path, sort, top, quiet, wait, warmup, active) end

--- fn(..) without saving what its gradient needs: the backward runs fn a second time, with the same random numbers.
---@param fn function
---@param ... any
---@return mt.Tensor ...
function mt.recompute(fn, ...) end

--- Writes one HTML page that needs nothing else and returns its path: mt.report{path='report.html', title=, notes=, config={name=value}, curves={..}, timing={..}, surface={arguments of plot.contour}, table={rows}}. mt.help('reports') shows the forms of each.
---@param ... any
---@return mt.Tensor ...
function mt.report(...) end

--- Whether results too small to be normal numbers become 0, and such operands count as 0, in all kernels (denormals are slow); an optimizer's step does so anyway. False where the processor cannot.
---@param enabled boolean
---@return mt.Tensor ...
function mt.set_flush_denormal(enabled) end

--- How many threads kernels use.
---@param n integer
---@return mt.Tensor ...
function mt.set_num_threads(n) end

--- What one call of fn takes: prints the time of the processor (user, sys, total: all threads together) and of the clock (wall; it waits for the GPUs in use); returns {user=, sys=, total=, wall=} in seconds, then what fn returned. The first call of a function may compile; mt.timeit repeats.
---@param fn function
---@param quiet? boolean default false
---@return any ...
function mt.time(fn, quiet) end

--- How long fn() takes: prints "mean +- deviation per loop" of runs of n loops each (without n as many as take 0.05 s); returns mean, deviation, median in seconds. Before and after each run it waits for the GPUs in use.
---@param fn function
---@param n? integer
---@param runs? integer default 7
---@param quiet? boolean default false
---@return any ...
function mt.timeit(fn, n, runs, quiet) end

--- fn(inputs..), and v' J: the gradients of its results times v by the inputs. v has the results' shapes.
---@param fn function
---@param inputs mt.Tensor|mt.Tensor[]
---@param v? mt.Tensor
---@return mt.Tensor ...
function mt.vjp(fn, inputs, v) end

--- L with A = L L' for positive-definite A, or U with A = U' U; only that triangle is read.
---@param A mt.Tensor
---@param upper? boolean default false
---@return any ...
function mt.linalg.cholesky(A, upper) end

--- The inverse of the matrix whose Cholesky factor this is.
---@param factor mt.Tensor
---@param upper? boolean default false
---@return any ...
function mt.linalg.cholesky_inverse(factor, upper) end

--- The condition: the norm of order p (default 2) times the inverse's.
---@param A mt.Tensor
---@param p? number
---@return any ...
function mt.linalg.cond(A, p) end

--- The cross products of vectors of 3 elements along dim.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param dim? integer|integer[] default -1
---@return any ...
function mt.linalg.cross(x, y, dim) end

--- The determinants of square matrices.
---@param A mt.Tensor
---@return any ...
function mt.linalg.det(A) end

--- wr, wi, vr, vi: the eigenvalues of square matrices as real and imaginary parts, and the vectors (columns of length 1) likewise. Their phase is free: what depends on it, as vr alone for complex ones, has no gradient and says so.
---@param A mt.Tensor
---@return any ...
function mt.linalg.eig(A) end

--- Eigenvalues, ascending, and eigenvectors of symmetric matrices, read from one triangle.
---@param A mt.Tensor
---@param UPLO? string default 'L'
---@return any ...
function mt.linalg.eigh(A, UPLO) end

--- wr, wi: the eigenvalues of square matrices as real and imaginary parts.
---@param A mt.Tensor
---@return any ...
function mt.linalg.eigvals(A) end

--- The eigenvalues of symmetric matrices, ascending.
---@param A mt.Tensor
---@param UPLO? string default 'L'
---@return any ...
function mt.linalg.eigvalsh(A, UPLO) end

--- The inverses of square matrices; a singular one is an error.
---@param A mt.Tensor
---@return any ...
function mt.linalg.inv(A) end

--- inv without an error: inverse, info; info (int32) is 0, or the pivot (from 1) that is 0, then the inverse is nan.
---@param A mt.Tensor
---@param check_errors? boolean default false
---@return any ...
function mt.linalg.inv_ex(A, check_errors) end

--- The X of least |A X - B|: solution, residuals (squared; empty without full rank), rank, singular_values. Drivers as LAPACK's: 'gelsy', 'gels', 'gelsd', 'gelss'.
---@param A mt.Tensor
---@param B mt.Tensor
---@param rcond? number
---@param driver? string default 'gelsy'
---@return any ...
function mt.linalg.lstsq(A, B, rcond, driver) end

--- P, L, U with A = P L U, for matrices of any shape. pivot=false is an error, as on PyTorch's CPU: rows are always exchanged.
---@param A mt.Tensor
---@param pivot? boolean default true
---@return any ...
function mt.linalg.lu(A, pivot) end

--- LU, pivots: L (without its diagonal of ones) and U in one matrix; row i was exchanged with row pivots[i], from 1. A singular matrix is an error, and so is pivot=false, as on PyTorch's CPU.
---@param A mt.Tensor
---@param pivot? boolean default true
---@return any ...
function mt.linalg.lu_factor(A, pivot) end

--- X with A X = B from lu_factor(A), or X A = B where left is false; adjoint: A' for A.
---@param LU mt.Tensor
---@param pivots mt.Tensor
---@param B mt.Tensor
---@param left? boolean default true
---@param adjoint? boolean default false
---@return any ...
function mt.linalg.lu_solve(LU, pivots, B, left, adjoint) end

--- The exponential of square matrices, the sum of A^k / k!.
---@param A mt.Tensor
---@return any ...
function mt.linalg.matrix_exp(A) end

--- The norm of matrices: 'fro', 'nuc', 1, -1, 2, -2, inf, -inf; dim (-2, -1) by default.
---@param A mt.Tensor
---@param ord? number|string default 'fro'
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return any ...
function mt.linalg.matrix_norm(A, ord, dim, keepdim) end

--- The n-th power of square matrices; of their inverses for negative n.
---@param A mt.Tensor
---@param n integer
---@return any ...
function mt.linalg.matrix_power(A, n) end

--- How many singular values lie above max(atol, rtol * largest).
---@param A mt.Tensor
---@param atol? number
---@param rtol? number
---@param hermitian? boolean default false
---@return any ...
function mt.linalg.matrix_rank(A, atol, rtol, hermitian) end

--- The product of a list of matrices in the cheapest order.
---@param tensors mt.Tensor[]
---@return any ...
function mt.linalg.multi_dot(tensors) end

--- The norm of vectors (one dim, or 1-d) or matrices (two dims, or 2-d); of all elements without ord. ord: a number, inf, -inf; for matrices 'fro', 'nuc', 1, -1, 2, -2, inf, -inf.
---@param A mt.Tensor
---@param ord? number|string
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return any ...
function mt.linalg.norm(A, ord, dim, keepdim) end

--- The Moore-Penrose inverse; singular values up to max(atol, rtol * largest) count as 0.
---@param A mt.Tensor
---@param atol? number
---@param rtol? number
---@param hermitian? boolean default false
---@return any ...
function mt.linalg.pinv(A, atol, rtol, hermitian) end

--- Q, R with A = Q R; mode 'reduced', 'complete', or 'r' (then Q is empty).
---@param A mt.Tensor
---@param mode? string default 'reduced'
---@return any ...
function mt.linalg.qr(A, mode) end

--- The sign of the determinant and the logarithm of its size: two tensors.
---@param A mt.Tensor
---@return any ...
function mt.linalg.slogdet(A) end

--- X with A X = B, or X A = B where left is false; batches broadcast; B may be a vector. A singular matrix is an error.
---@param A mt.Tensor
---@param B mt.Tensor
---@param left? boolean default true
---@return any ...
function mt.linalg.solve(A, B, left) end

--- solve without an error: result, info; info (int32) is 0, or the pivot (from 1) that is 0, then the result is nan.
---@param A mt.Tensor
---@param B mt.Tensor
---@param left? boolean default true
---@param check_errors? boolean default false
---@return any ...
function mt.linalg.solve_ex(A, B, left, check_errors) end

--- X with A X = B for triangular A; the rest of A is not read.
---@param A mt.Tensor
---@param B mt.Tensor
---@param upper boolean
---@param left? boolean default true
---@param unitriangular? boolean default false
---@return any ...
function mt.linalg.solve_triangular(A, B, upper, left, unitriangular) end

--- U, S, Vh with A = U diag(S) Vh, S descending; gradients reach the first min(m, n) vectors.
---@param A mt.Tensor
---@param full_matrices? boolean default true
---@return any ...
function mt.linalg.svd(A, full_matrices) end

--- The singular values, descending.
---@param A mt.Tensor
---@return any ...
function mt.linalg.svdvals(A) end

--- The inverse of A as a matrix of its first ind dimensions and the others.
---@param A mt.Tensor
---@param ind? integer default 2
---@return any ...
function mt.linalg.tensorinv(A, ind) end

--- X with A X = B for A as a matrix: its first dimensions are B's, the others X's; dims of A go last before.
---@param A mt.Tensor
---@param B mt.Tensor
---@param dims? integer|integer[]
---@return any ...
function mt.linalg.tensorsolve(A, B, dims) end

--- The powers 0 .. N - 1 of each element, in a new last dimension; N: as many as x has.
---@param x mt.Tensor
---@param N? integer
---@return any ...
function mt.linalg.vander(x, N) end

--- The products of vectors along dim, which broadcast.
---@param x mt.Tensor
---@param y mt.Tensor|number
---@param dim? integer|integer[] default -1
---@return any ...
function mt.linalg.vecdot(x, y, dim) end

--- (sum |x|^ord)^(1/ord) over dimensions or all; 0 counts, inf and -inf are max and min.
---@param x mt.Tensor
---@param ord? number|string default 2
---@param dim? integer|integer[]
---@param keepdim? boolean default false
---@return any ...
function mt.linalg.vector_norm(x, ord, dim, keepdim) end

--- -log of the probability of the target, for x in 0..1.
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@return any ...
function mt.nn.BCELoss(weight, reduction) end

--- -log of the probability of the target, for raw scores.
---@param weight? mt.Tensor
---@param reduction? string default 'mean'
---@param pos_weight? mt.Tensor
---@return any ...
function mt.nn.BCEWithLogitsLoss(weight, reduction, pos_weight) end

--- A tensor that is saved with the module but not trained.
---@param tensor mt.Tensor
---@return any ...
function mt.nn.Buffer(tensor) end

--- -log of the softmax of the target classes (from 1), for scores [n x classes].
---@param weight? mt.Tensor
---@param ignore_index? integer default -100
---@param reduction? string default 'mean'
---@param label_smoothing? number default 0
---@return any ...
function mt.nn.CrossEntropyLoss(weight, ignore_index, reduction, label_smoothing) end

--- Joins the dimensions first to last: all but the batch.
---@param first? number default 2
---@param last? number default -1
---@return any ...
function mt.nn.Flatten(first, last) end

--- x times the normal distribution function; approximate='tanh'.
---@param approximate? string default 'none'
---@return any ...
function mt.nn.GELU(approximate) end

--- x itself.
---@return any ...
function mt.nn.Identity() end

--- x . weight' + bias; weight [out x in] and bias uniform in +-1/sqrt(in).
---@param in_features integer
---@param out_features integer
---@param bias? mt.Tensor default true
---@return any ...
function mt.nn.Linear(in_features, out_features, bias) end

--- The mean squared difference of x and target.
---@param reduction? string default 'mean'
---@return any ...
function mt.nn.MSELoss(reduction) end

--- The base of all modules; see nn.class.
---@param ... any
---@return any ...
function mt.nn.Module(...) end

--- A list whose modules are registered, nn.ModuleList{a, b}; it is indexed, not called.
---@param ... any
---@return any ...
function mt.nn.ModuleList(...) end

--- A tensor that modules register and optimizers change.
---@param tensor mt.Tensor
---@return any ...
function mt.nn.Parameter(tensor) end

--- max(x, 0).
---@return any ...
function mt.nn.ReLU() end

--- Modules one after another, nn.Sequential(a, b, c) or a list of them: each one's result is the next one's input.
---@param ... any
---@return any ...
function mt.nn.Sequential(...) end

--- x * sigmoid(x).
---@return any ...
function mt.nn.SiLU() end

--- 1 / (1 + exp(-x)).
---@return any ...
function mt.nn.Sigmoid() end

--- log(1 + exp(beta x)) / beta.
---@param beta? number default 1
---@param threshold? integer default 20
---@return any ...
function mt.nn.Softplus(beta, threshold) end

--- The hyperbolic tangent.
---@return any ...
function mt.nn.Tanh() end

--- A class of modules: define __init and forward, then call it.
---@param name string
---@param base? table
---@return any ...
function mt.nn.class(name, base) end

--- Adaptive moments, as torch.optim.Adam.
---@param parameters mt.Tensor[]
---@param lr? number default 0.001
---@param betas? number[] default {0.9, 0.999}
---@param eps? number default 1e-8
---@param weight_decay? number default 0
---@return any ...
function mt.optim.Adam(parameters, lr, betas, eps, weight_decay) end

--- Adaptive moments, as torch.optim.AdamW.
---@param parameters mt.Tensor[]
---@param lr? number default 0.001
---@param betas? number[] default {0.9, 0.999}
---@param eps? number default 1e-8
---@param weight_decay? number default 0.01
---@return any ...
function mt.optim.AdamW(parameters, lr, betas, eps, weight_decay) end

--- Steps divided by the root of a running mean of squared gradients, as torch.optim.RMSprop; centered: less the square of their mean.
---@param parameters mt.Tensor[]
---@param lr? number default 0.01
---@param alpha? number default 0.99
---@param eps? number default 1e-8
---@param weight_decay? number default 0
---@param momentum? number default 0
---@param centered? boolean default false
---@return any ...
function mt.optim.RMSprop(parameters, lr, alpha, eps, weight_decay, momentum, centered) end

--- Stochastic gradient descent, as torch.optim.SGD.
---@param parameters mt.Tensor[]
---@param lr? number default 0.001
---@param momentum? number default 0
---@param dampening? number default 0
---@param weight_decay? number default 0
---@param nesterov? boolean default false
---@return any ...
function mt.optim.SGD(parameters, lr, momentum, dampening, weight_decay, nesterov) end

--- n points, class 1 outside the circle (x1 - .5)^2 + (x2 - .5)^2 = 0.1.
---@param n integer
---@return any ...
function mt.data.circle(n) end

--- n points, class 1 where x1 + x2 < 0.5.
---@param n integer
---@return any ...
function mt.data.diag(n) end

--- The tensor in an IDX file, such as MNIST's (also .gz): the file's own values, uint8 for images and labels.
---@param path string
---@return any ...
function mt.data.idx(path) end

--- n points, class 1 where x1 < 0.5.
---@param n integer
---@return any ...
function mt.data.simple(n) end

--- Two arms of a spiral, floor(n / 2) points each.
---@param n integer
---@return any ...
function mt.data.spiral(n) end

--- n points, class 1 where x1 < 0.2 or x1 > 0.8.
---@param n integer
---@return any ...
function mt.data.split(n) end

--- n points, class 1 in the upper left and the lower right quarter.
---@param n integer
---@return any ...
function mt.data.xor(n) end

--- bar{values, labels={..}, ..}: one bar per value.
---@param ... any
---@return any ...
function mt.plot.bar(...) end

--- contour{matrix or f(x, y), xrange={0,1}, yrange={0,1}, levels=10, level=0.5, grid=60, points={x=, y=, class=}, cmap=, aspect=, ..}: filled bands and the line of `level`; matrix row 1 is low y.
---@param ... any
---@return any ...
function mt.plot.contour(...) end

--- fill_between{x, low, high, label=, ..}: the band between two curves; entries as in line.
---@param ... any
---@return any ...
function mt.plot.fill_between(...) end

--- heatmap{matrix, rows={..}, cols={..}, cmap='viridis', vmin=, vmax=, ..}: row 1 on top, as a matrix is printed. cmap: viridis magma gray diverging.
---@param ... any
---@return any ...
function mt.plot.heatmap(...) end

--- hist{values, bins=, ..}: how often values occur (a tensor of any shape); bins are chosen if nil.
---@param ... any
---@return any ...
function mt.plot.hist(...) end

--- image{x, cmap='gray', vmin=, vmax=, ..}: pixels as they are, row 1 on top: [h x w], [1 x h x w], or [3 x h x w] in colour (0..1, or 0..255 where a value is above 1). Gray spans the values that there are.
---@param ... any
---@return any ...
function mt.plot.image(...) end

--- images{x, cols=, labels={..}, cmap=, vmin=, vmax=, ..}: a list of images of one size, or [n x h x w], [n x 1 x h x w], [n x 3 x h x w], side by side.
---@param ... any
---@return any ...
function mt.plot.images(...) end

--- line{x, y1, .., title=, xlabel=, ylabel=, labels={..}, logx=, logy=, aspect=, width=, height=, path=}: lines over x, over 1..n for one list. An entry {x=, y=, label=} has its own x, with low= and high= a band; kind='scatter' draws dots. With a path an SVG file, else text.
---@param ... any
---@return any ...
function mt.plot.line(...) end

--- scatter{x, y, class={..}, labels={..}, aspect=, ..}: dots coloured by class; [n x 2] is both. Entries {x=, y=, label=, kind='line'} as in line; aspect='equal': one unit is as long on both axes.
---@param ... any
---@return any ...
function mt.plot.scatter(...) end

--- A mark in the order of a GPU's work: e:record(), e:synchronize(), e:query(), and e1:elapsed_time(e2) in milliseconds.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.Event(device) end

--- How many GPUs can be used.
---@return any ...
function mt.cuda.device_count() end

--- What a GPU is sold as.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.device_name(device) end

--- Gives memory that is kept for reuse back to the driver.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.empty_cache(device) end

--- What the driver says of a GPU: name, major, minor (compute capability), multi_processor_count, warp_size, max_threads_per_block, max_threads_per_multi_processor, regs_per_multiprocessor, total_memory, shared_memory_per_block and L2_cache_size in bytes.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.get_device_properties(device) end

--- Runs fn warmup times, then records what it asks of the GPU without doing it. g() does all of that again with the memory, the numbers and the shapes of the recording, and returns the tensors that fn returned. Inputs are tensors that are written into before: x:copy_(batch). fn may not wait for the GPU (item, tolist, printing, x:cpu()), begins with zero_grad, and draws random numbers that go on from replay to replay. SGD and Adam take the learning rate of the replay; another option that changed is refused. g:release() ends it.
---@param fn function
---@param warmup? integer default 2
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.graph(fn, warmup, device) end

--- A kernel in CUDA C, compiled by NVRTC and kept on disk; k[{blocks, threads}](..) launches it, k[{ {gx, gy}, {bx, by}, bytes}](..) too. name may be 'scale<float>'; options are NVRTC's; defines = {TILE = 16}; rank = {m = 2} says how many dimensions a tensor must have; k:set_constant('name', x) fills a __constant__. check=true finds what a launch writes beside its tensors.
---@param source string
---@param name? string
---@param options? string[]
---@param defines? table
---@param rank? table
---@param device? string default 'cuda'
---@param check? boolean default false
---@return any ...
function mt.cuda.kernel(source, name, options, defines, rank, device, check) end

--- Bytes of a GPU: allocated (in tensors), peak, reserved (from the driver, in use or kept for reuse), free, total; and how many allocations, launches, copies and waits there were; products and convolutions name the libraries of large ones.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.memory_stats(device) end

--- memory_stats().peak begins anew at what is allocated.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.reset_peak(device) end

--- Waits until a GPU has done what it was asked.
---@param device? string default 'cuda'
---@return any ...
function mt.cuda.synchronize(device) end

---@class mt.Module
local Module = {}

--- All parameters of the module and of those inside, each once, as a list: what optimizers take.
function Module:parameters() end

--- An iterator: for name, p in net:named_parameters() do. Names are PyTorch's, '0.weight'.
function Module:named_parameters() end

--- All buffers, as a list.
function Module:buffers() end

--- An iterator over names and buffers.
function Module:named_buffers() end

--- The modules that are direct fields, as a list.
function Module:children() end

--- The module itself and all inside, as a list.
function Module:modules() end

--- An iterator over names and the modules inside.
function Module:named_modules() end

--- Calls fn(module) for every module inside, then for this one; returns it.
function Module:apply(fn) end

--- Switches to training, what dropout and normalisations ask for (net.training); returns it.
function Module:train(mode) end

--- The same as train(false).
function Module:eval() end

--- Whether the parameters have gradients: false freezes them; returns it.
function Module:requires_grad_(on) end

--- Drops the gradients of all parameters: the next backward adds up in .grad otherwise.
function Module:zero_grad() end

--- Parameters and buffers to another dtype or device, in place, net:to('cuda'); returns it. float double half bfloat16 cpu cuda are short for it.
function Module:to(target, ...) end

--- The same as to('float32').
function Module:float() end

--- The same as to('float64').
function Module:double() end

--- The same as to('float16').
function Module:half() end

--- The same as to('bfloat16').
function Module:bfloat16() end

--- The same as to('cpu').
function Module:cpu() end

--- The same as to('cuda').
function Module:cuda() end

--- A copy with parameters of its own; what is shared inside stays shared.
function Module:clone() end

--- A table of names to detached tensors that share the parameters' memory. The names are PyTorch's: children of a Sequential count from 0, '0.weight', where print(net) and net[1] count from 1.
function Module:state_dict() end

--- Copies such a table into the parameters; returns the module. Where it does not fit nothing is loaded; {strict=false} leaves missing and unknown names alone and returns both lists.
function Module:load_state_dict(state, strict) end

--- What print(net) shows: the tree with its parameters counted. Children at [1], [2] count from 1, in state_dict's names from 0.
function Module:describe() end

--- What the module computes. net(x) calls it and adds the name of the module to errors.
function Module:forward(x, ...) end

---@class mt.Optimizer
local Optimizer = {}

--- One step from the gradients; a closure is called before, and its loss returned.
function Optimizer:step(closure) end

--- Drops the gradients of all parameters: the next backward adds up in .grad otherwise.
function Optimizer:zero_grad() end

--- Options and state of each group, for load_state_dict.
function Optimizer:state_dict() end

--- Goes on from what state_dict() of such an optimizer returned; where it does not fit nothing is loaded.
function Optimizer:load_state_dict(state) end

--- One more group, {params = list, lr = ..}; what it leaves out is as in the optimizer.
function Optimizer:add_param_group(group) end

--- A field: the groups, each with params and options that may be changed between steps, opt.param_groups[1].lr = 0.01.
Optimizer.param_groups = nil

---@class mt.Context
local Context = {}

--- Keeps tensors for backward; a change in place of them before that is an error.
function Context:save_for_backward(...) end

--- What was saved, as several values, no list: local x, y = ctx:saved_tensors().
function Context:saved_tensors() end

---@class mt.Hook
local Hook = {}

--- The hook is called no more.
function Hook:remove() end

return mt
