// cuda_kernel.cpp -- checks launches and their arguments, and launches kernels
#include "engine/gpu/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "engine/autograd/graph.h"
#include "engine/gpu/cuda_preamble.h"
#include "engine/ops/create.h"

namespace mt {
namespace {

constexpr int kMaxParameters = 64;

bool same(const CudaType& a, const CudaType& b) {
  return a.kind == b.kind && a.element == b.element && a.bytes == b.bytes && a.lanes == b.lanes &&
         a.is_signed == b.is_signed && a.sizes == b.sizes && a.rank == b.rank;
}

const CudaFunction* find_kernel(const CudaText& text, const std::string& name) {
  const std::string plain = name.substr(0, name.find('<'));
  for (const CudaFunction& f : text.kernels)
    if (f.name == plain.substr(plain.rfind(':') + 1)) return &f;
  return nullptr;
}

/// The requested kernel name, or the only one.
std::string choose(const CudaText& text, const std::string& wanted) {
  std::string list;
  for (const CudaFunction& f : text.kernels) list += (list.empty() ? "'" : ", '") + f.name + "'";
  if (wanted.empty()) {
    if (text.kernels.empty())
      fail("cuda.kernel: the source has no __global__ function; if a header has it, pass name=");
    if (text.kernels.size() > 1)
      fail("cuda.kernel: the source has the kernels {}; select one: name='{}'", list,
           text.kernels[0].name);
  }
  const std::string name = wanted.empty() ? text.kernels[0].name : wanted;
  for (const char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("_:<>, *()-", c))
      fail("cuda.kernel: '{}' is not the name of a kernel", name);
  const CudaFunction* f = find_kernel(text, name);
  if (!f && !text.hides && !text.includes)
    fail("cuda.kernel: the source has no kernel '{}'{}", name,
         list.empty() ? ", no __global__ function at all" : "; it has " + list);
  if (f && f->is_template && name.find('<') == name.npos)
    fail("cuda.kernel: '{}' is a template; name an instance, as in name='{}<float>'", name, name);
  return name;
}

/// The advice about the first #include that the compiler did not find, or an empty string.
std::string missing_header(const std::string& log) {
  constexpr std::string_view kWords = "cannot open source file \"";
  const size_t at = log.find(kWords), end = log.find('"', at + kWords.size());
  if (at == log.npos || end == log.npos) return "";
  const std::string name = log.substr(at + kWords.size(), end - at - kWords.size());
  return fmt::format(
      " '{}' was not found: leave the #include out if the kernel does not need it, put "
      "its text into the source, or name its folder, options={{'-I/folder'}}.",
      name);
}

constexpr char kHostAdvice[] =
    " Leave out what belongs to the host: only kernels and __device__ functions are compiled. The "
    "script's part is: k[{blocks, threads}](..) launches and checks, rank={m=2} and the types stand "
    "for TORCH_CHECK, mt.zeros makes results, mt.cdiv counts blocks, k:set_constant fills "
    "__constant__.";

/// The compiler's errors, preceded by advice.
std::string with_advice(const std::string& message, const CudaText& text) {
  constexpr std::string_view kWords = "does not compile";
  const std::string advice = missing_header(message) + (text.has_host_code ? kHostAdvice : "");
  const size_t at = message.find(kWords);
  if (advice.empty() || at == message.npos) return message;
  const size_t end = at + kWords.size(), rest = end + (message.compare(end, 1, ":") == 0);
  return message.substr(0, end) + "." + advice + message.substr(rest);
}

}  // namespace

CudaKernel::CudaKernel(CudaSource source, const std::string& device)
    : source_(std::move(source)),
      text_(read_cuda(source_.text)),
      device_(device) {
  if (text_.accessors) source_.defines = kCudaTensors + source_.defines;
  source_.name = choose(text_, source_.name);
  lasting_name_ = lasting(source_.name);
  if (device_ != "cuda" && device_.compare(0, 5, "cuda:") != 0)
    fail("cuda.kernel: '{}' is not a GPU; use 'cuda' or 'cuda:0'", device_);
  if (cuda_devices() > 0) home_ = &device_named(device_);
  else why_ = cuda_unavailable_reason();
  if (home_) arch_ = modules_of(*home_)->arch;
  try {
    code_ = compile_cuda(source_, arch_);
  } catch (const Error& e) { fail("cuda.kernel: {}", with_advice(e.what(), text_)); }
  // The types come from the compiler, the names of the parameters from the text.
  parameters_ = parse_parameters(code_.signature);
  if (const CudaFunction* f = find_kernel(text_, source_.name)) {
    if (code_.signature.empty()) parameters_ = f->parameters;
    for (size_t i = 0; i < parameters_.size() && f->parameters.size() == parameters_.size(); ++i) {
      const CudaParameter& written = f->parameters[i];
      CudaParameter& p = parameters_[i];
      p.name = written.name;
      if (same(p.type, written.type)) p.type.text = written.type.text;
      else if (!p.name.empty()) p.type.text += " " + p.name;
    }
  }
  if (parameters_.size() > kMaxParameters)
    fail("cuda.kernel: '{}' has {} parameters, at most {} can be given", name(), parameters_.size(),
         kMaxParameters);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const CudaType& t = parameters_[i].type;
    const bool half = t.kind == CudaType::floating && t.bytes == 2;
    if (t.kind == CudaType::unknown || half || (t.kind == CudaType::pointer && t.element.empty()))
      fail(
          "cuda.kernel: {} cannot be given from Lua; parameters are pointers to float, double, "
          "int, long long, short, char, "
          "unsigned char, bool or __half, mt::tensor1 .. mt::tensor4 of them, and numbers",
          argument(int(i)));
  }
  rank_.assign(parameters_.size(), -1);
  if (home_) load(*home_);
}

CudaKernel::~CudaKernel() {
  for (const auto& [device, kernel] : loaded_) modules_of(*device)->unload(kernel);
}

std::string CudaKernel::text() const {
  std::string list;
  for (const CudaParameter& p : parameters_) list += (list.empty() ? "" : ", ") + p.type.text;
  return fmt::format("{}({})", name(), list);
}

/// "argument 2 'f' (const float* f)"
std::string CudaKernel::argument(int i) const {
  const CudaParameter& p = parameters_[i];
  return fmt::format("argument {}{}{}{} ({})", i + 1, p.name.empty() ? "" : " '", p.name,
                     p.name.empty() ? "" : "'", p.type.text);
}

const LoadedKernel* CudaKernel::loaded() const {
  const auto at = loaded_.find(home_);
  return at == loaded_.end() ? nullptr : &at->second;
}

const LoadedKernel& CudaKernel::load(const Device& d) {
  if (const auto at = loaded_.find(&d); at != loaded_.end()) return at->second;
  const int arch = modules_of(d)->arch;
  const LoadedKernel kernel =
      load_kernel(source_, arch == arch_ ? code_ : compile_cuda(source_, arch), d,
                  fmt::format("cuda.kernel: '{}'", name()));
  return loaded_.emplace(&d, kernel).first->second;
}

// ---- checks --------------------------------------------------------------------------------------

const Device& CudaKernel::usable() const {
  if (home_) return *home_;
  fail("{}: there is no GPU to run it: {}", name(), why_);
}

void CudaKernel::check_tensor(int i, const Tensor& x, const Device*& device) const {
  const CudaType& t = parameters_[i].type;
  const bool accessor = t.kind == CudaType::accessor;
  if (t.kind != CudaType::pointer && !accessor)
    fail("{}: {} must be a {}, got a tensor {}", name(), argument(i),
         t.kind == CudaType::boolean ? "boolean" : "number", to_string(x.shape()));
  if (t.element != dtype_name(x.dtype()))
    fail("{}: {} takes a tensor of {}, got one of {}; convert it: x:to('{}')", name(), argument(i),
         t.element, dtype_name(x.dtype()), t.element);
  const int least = int(t.sizes.size()) + 1;
  const int rank = accessor ? t.rank : rank_[i] >= 0 ? rank_[i] : t.sizes.empty() ? -1 : least;
  if (rank >= 0 && x.dim() != rank)
    fail("{}: {} takes a tensor of {} dimension{}, got one of {}: {}", name(), argument(i), rank,
         rank == 1 ? "" : "s", x.dim(), to_string(x.shape()));
  for (size_t k = 0; k < t.sizes.size() && x.dim() == least; ++k)
    if (t.sizes[k] >= 0 && x.size(int(k) + 1) != t.sizes[k])
      fail("{}: {} takes a tensor with {} elements in dimension {}, got {}", name(), argument(i),
           t.sizes[k], k + 2, to_string(x.shape()));
  if (!x.is_contiguous() && !accessor)
    fail("{}: {} is not contiguous: {} with strides {}; use x:contiguous()", name(), argument(i),
         to_string(x.shape()), to_string(x.strides()));
  if (wants_grad(x))
    fail(
        "{}: {} requires a gradient, which a kernel in CUDA C does not have; call it inside "
        "mt.no_grad(fn), or wrap "
        "it in mt.Function",
        name(), argument(i));
  if (t.lanes > 1 &&
      (x.numel() % t.lanes != 0 || reinterpret_cast<uintptr_t>(x.data()) % size_t(t.bytes) != 0))
    fail(
        "{}: {} reads {} elements at once: their number {} must be a multiple, and the first one "
        "aligned",
        name(), argument(i), t.lanes, x.numel());
  if (device && device != &x.device())
    fail("{}: {} is on {}, another one on {}; a kernel runs on one device", name(), argument(i),
         x.device().name, device->name);
  device = &x.device();
}

uint64_t CudaKernel::value_of(int i, const KernelArgument& a,
                              const DescribeArgument& describe) const {
  const CudaType& t = parameters_[i].type;
  uint64_t bits = 0;
  if (t.kind == CudaType::boolean) {
    if (a.kind != KernelArgument::boolean)
      fail("{}: {} must be true or false, got {}", name(), argument(i), describe(i));
    return uint64_t(a.value != 0);
  }
  if (a.kind != KernelArgument::number)
    fail("{}: {} must be a number, got {}", name(), argument(i), describe(i));
  if (t.kind == CudaType::floating) {
    if (t.bytes == 8) return std::memcpy(&bits, &a.value, 8), bits;
    if (std::isfinite(a.value) && std::fabs(a.value) > FLT_MAX)
      fail("{}: {}: {} does not fit into a float", name(), argument(i), show(a.value));
    const float x = float(a.value);
    return std::memcpy(&bits, &x, 4), bits;
  }
  const int width = std::min(t.bytes * 8, 54);  // Lua numbers are exact integers up to 2^53
  const double most =
      t.bytes == 8 ? 9007199254740992.0 : std::ldexp(1, t.is_signed ? width - 1 : width) - 1;
  const double least = !t.is_signed ? 0 : t.bytes == 8 ? -most : -most - 1;
  if (a.value != std::floor(a.value) || a.value > most || a.value < least || a.value != a.value)
    fail("{}: {} must be an integer from {:.0f} to {:.0f}, got {}", name(), argument(i), least,
         most, show(a.value));
  return uint64_t(int64_t(a.value));  // little-endian: the first bytes are the shorter type's value
}

/// The GPU for a launch with tensors of that device, or without tensors.
const Device& CudaKernel::place_of(const Device* tensors) const {
  const Device& home = usable();
  if (tensors && is_cpu(*tensors))
    fail("{}: its tensors are on the CPU; move them to the GPU with x:to('{}')", name(), home.name);
  const Device& d = tensors ? *tensors : home;
  if (filled_ && &d != &home)
    fail(
        "{}: its variables were set on {}, its tensors are on {}; make another kernel, with "
        "device='{}'",
        name(), home.name, d.name, d.name);
  check_alive(d);
  return d;
}

// ---- launches ----------------------------------------------------------------------------------

void CudaKernel::launch(const LaunchSize& size, const std::vector<KernelArgument>& arguments,
                        const DescribeArgument& describe) {
  const int n = int(parameters_.size()), count = int(arguments.size());
  check_launch(name(), size);
  if (size.shared < 0 || size.shared > 1 << 20)
    fail("{}: {} bytes of shared memory", name(), size.shared);
  if (count != n) fail("{}: {} arguments given, it takes {}: {}", name(), count, n, text());
  KernelArguments values;
  std::vector<uint64_t>& words = values.words;
  const Device* device = nullptr;
  for (int i = 0; i < n; ++i) {
    const CudaType& type = parameters_[i].type;
    if (arguments[i].tensor) {
      const Tensor& x = *arguments[i].tensor;
      check_tensor(i, x, device);
      words.push_back(reinterpret_cast<uintptr_t>(x.data()));
      for (int d = 0; d < type.rank; ++d) words.push_back(uint64_t(x.size(d)));
      for (int d = 0; d < type.rank; ++d) words.push_back(uint64_t(x.stride(d)));
    } else if (type.kind == CudaType::pointer || type.kind == CudaType::accessor) {
      fail("{}: {} must be a tensor, got {}", name(), argument(i), describe(i));
    } else {
      words.push_back(value_of(i, arguments[i], describe));
    }
    values.end();
  }
  const Device& d = place_of(device);
  const LoadedKernel& kernel = load(d);
  check_threads(name(), kernel, size);
  if (size.shared > kernel.more_shared)
    fail("{}: {} bytes of shared memory are requested; besides the {} that it declares, {} has {}",
         name(), size.shared, kernel.shared, d.name, kernel.more_shared);
  if (size.grid[0] * size.grid[1] == 0 || size.grid[2] == 0) return;
  if (text_.prints) std::fflush(stdout);  // flushes earlier output of the script first
  queue_kernel(kernel, lasting_name_, size, values, d);
  check_device(d);
  for (int i = 0; i < n; ++i)
    if (arguments[i].tensor && !parameters_[i].type.read_only) bump(*arguments[i].tensor);
}

void CudaKernel::set_constant(const std::string& variable, const Tensor& value) {
  if (capturing)
    fail("{}: '{}' cannot be set while a graph is recorded; set it before", name(), variable);
  const CudaVariable* known = nullptr;
  for (const CudaVariable& v : text_.variables)
    if (v.name == variable) known = &v;
  if (!known && !text_.includes && !text_.hides) {
    std::string list;
    for (const CudaVariable& v : text_.variables)
      list += (list.empty() ? "; it has '" : ", '") + v.name + "'";
    fail("{}: the source has no __constant__ or __device__ variable '{}'{}", name(), variable,
         list);
  }
  if (known && !known->type.element.empty() && known->type.element != dtype_name(value.dtype()))
    fail("{}: '{}' ({}) takes {}, got a tensor of {}", name(), variable, known->type.text,
         known->type.element, dtype_name(value.dtype()));
  const Device& d = usable();
  const LoadedKernel& kernel = load(d);
  size_t bytes = 0;
  void* const at = modules_of(d)->variable(kernel, variable.c_str(), &bytes);
  const size_t given = size_t(value.numel()) * size_t(item_size(value.dtype()));
  if (!at)
    fail("{}: the code has no variable '{}'; it must be at file scope, not static, and used",
         name(), variable);
  if (given != bytes)
    fail("{}: '{}' holds {} bytes, got a tensor {} of {}", name(), variable, bytes,
         to_string(value.shape()), given);
  if (&value.device() != &d && !is_cpu(value.device()))
    fail("{}: '{}' is on {}, the tensor on {}", name(), variable, d.name, value.device().name);
  const Tensor x = contiguous(value.detach());
  modules_of(d)->write(at, x.data(), bytes);
  filled_ = true;
  check_device(d);
}

}  // namespace mt
