// module.cpp -- builds `require 'mtorch'`: the C++ functions, the core for the Lua library,
// and the embedded sources
#include "bindings/core/module.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <bit>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "bindings/functions/functions.h"
#include "bindings/open.h"
#include "engine/autograd/graph.h"
#include "engine/io/convert.h"
#include "engine/io/formats.h"
#include "engine/profile/verb_log.h"
#include "kernels/cpu/pool/parallel.h"

namespace mt::lua {
namespace {

/// The size of the terminal, or this one where there is none.
winsize terminal_size(unsigned short rows, unsigned short columns) {
  winsize w{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col != 0 && w.ws_row != 0;
  return known ? w : winsize{rows, columns, 0, 0};
}

const Entry kCore[] = {
    {"isatty(fd)", "Whether a file descriptor is a terminal.",
     bind<[](int64_t fd) { return isatty(int(fd)) == 1; }>},
    {"columns()", "The width of the terminal, or 80 without one.",
     bind<[] { return int64_t(terminal_size(24, 80).ws_col); }>},
    {"rows()", "The height of the terminal; without one it is not limited.",
     bind<[] { return int64_t(terminal_size(0xffff, 80).ws_row); }>},
    {"time()", "Seconds of a monotonic clock.", bind<[] {
       const auto now = std::chrono::steady_clock::now().time_since_epoch();
       return std::chrono::duration<double>(now).count();
     }>},
    {"interrupted()", "Whether Ctrl-C has been pressed.", bind<[] { return mt_interrupted != 0; }>},
    {"cpu_times()", "The seconds of user and of system time that the process has used.", bind<[] {
       rusage use{};
       getrusage(RUSAGE_SELF, &use);
       const auto seconds = [](const timeval& t) {
         return double(t.tv_sec) + 1e-6 * double(t.tv_usec);
       };
       return std::pair(seconds(use.ru_utime), seconds(use.ru_stime));
     }>},
    {"wait_for_gpus()", "Waits for all work of the GPUs in use.", bind<[] {
       if (gpus_in_use) for_each_cuda(synchronize);
     }>},
    {"memory()",
     "The bytes of all tensors; of CPU memory the bytes now, at the peak and in the free list; the "
     "number of CPU allocations.",
     bind<[] {
       const MemoryUse m = memory_use();
       return std::tuple(m.live, m.host, m.peak, m.cached, m.allocations);
     }>},
    {"set_memory_limit(bytes)", "Limits the bytes of all tensors; more is 'out of memory'.",
     bind<[](int64_t bytes) {
       if (bytes < 0) fail("set_memory_limit: {} bytes", bytes);
       set_memory_limit(bytes);
     }>},
    {"read_idx(path)", "The tensor in an IDX file.",
     [](Args& a) {
       if (lua_type(a.L, 1) != LUA_TSTRING)
         fail("idx: the path must be a string, got {}", describe(a.L, 1));
       return a.push(read_by(parse_idx, "idx", a.text(1), " is not a valid IDX file"));
     }},
    {"write_file(operation, path, text)", "Writes a whole file or nothing; returns the path.",
     [](Args& a) {
       write_file(a.text(1).c_str(), a.text(2), a.text(3));
       return lua_pushvalue(a.L, 2), 1;
     }},
    {"write_pieces(operation, path, pieces)",
     "Writes a whole file of strings and contiguous CPU tensors, in order, or nothing.",
     [](Args& a) {
       FileWriter file(a.text(1).c_str(), a.text(2));
       a.table(3);
       each_entry(a.L, 3, [&](int k) {
         if (const Tensor* x = tensor_at(a.L, -1)) {
           if (!x->is_contiguous() || &x->device() != &cpu_device())
             fail("write_pieces: piece {} is not a contiguous CPU tensor", k);
           file.write(bytes_of(*x));
         } else {
           file.write(text_at(a.L, -1));
         }
       });
       file.commit();
       return 0;
     }},
    {"check_writable(operation, path)", "Throws an error for a file that write_file cannot write.",
     bind<[](const std::string& operation, const std::string& path) {
       check_writable(operation.c_str(), path);
     }>},
    {"isa()", "The instruction set of the kernels.", bind<[]() { return std::string(cpu_isa()); }>},
    {"cuda_unavailable_reason()", "Why CUDA cannot be used; an empty string when it can.",
     bind<cuda_unavailable_reason>},
    {"cuda_devices()", "The number of GPUs that can be used.", bind<cuda_devices>},
    {"device_name(device)", "The model name of a device.",
     bind<[](const Device& d) { return std::string(d.model ? d.model : "CPU"); }>},
    {"synchronize(device)", "Waits for all work of a device.", bind<synchronize>},
    {"set_num_threads(n)", "Sets the number of threads of kernels.", bind<set_num_threads>},
    {"get_num_threads()", "The number of threads of kernels.", bind<get_num_threads>},
    {"set_flush_denormal(enabled)",
     "Sets whether all kernels replace denormal results and operands by 0, because denormals are "
     "slow; the steps of optimizers always do. Returns false if the processor cannot.",
     bind<set_flush_denormal>},
    {"device_unavailable_reason(device)",
     "Why a device cannot be used; an empty string when it can.",
     [](Args& a) {
       try {
         a.device(1);
         return a.push("");
       } catch (const Error& e) {
         return a.push(e.what() + std::strlen("device_unavailable_reason: "));
       }
     }},
};

/// Gives all NaNs the bits of NAN, since LuaJIT takes a double with a sign and other bits (as a file may hold), which
/// FFI reads, for a tagged value. -NAN, which calculations give, is safe.
template <class T, class Bits> void make_nans_readable(Storage& s, Bits infinity, Bits minus_nan) {
  if (std::exchange(s.readable_version, s.version) == s.version) return;
  T* const at = static_cast<T*>(s.data);
  const int64_t n = int64_t(s.bytes / sizeof(T));
  const auto is_other = [=](T v) {
    const Bits bits = std::bit_cast<Bits>(v);
    return bits > infinity && bits != minus_nan;
  };
  bool any = false;
  for (int64_t i = 0; i < n; ++i) any |= is_other(at[i]);
  for (int64_t i = 0; any && i < n; ++i)
    if (is_other(at[i])) at[i] = T(NAN);
}

// ---- functions written in Lua with the declarations of C++ ones ---------------------------------

int declared_body(Args& a) {
  a.require_all();
  check_dot(a.L, a.entry());
  lua_pushvalue(a.L, lua_upvalueindex(3));
  lua_insert(a.L, 1);
  lua_call(a.L, lua_gettop(a.L) - 1, LUA_MULTRET);
  return lua_gettop(a.L);
}

int declare(Args& a) {
  static std::mutex guard;
  // These live as long as the process, because closures of all Lua states point to them.
  static std::unordered_map<std::string, OwnedEntry> all;
  a.function(3);
  const bool keeps = a.boolean(4);
  std::lock_guard lock(guard);
  const Body body = keeps ? &declared_body | kKeepsNames : Body(&declared_body);
  const auto [at, fresh] = all.try_emplace(fmt::format("{}\n{}\n{}", a.text(1), a.text(2), keeps),
                                           a.text(1), a.text(2), body);
  const Entry& entry = at->second.entry;
  try {
    signature_of(entry);
  } catch (...) {
    all.erase(at);
    throw;
  }
  lua_pushlightuserdata(a.L, const_cast<Entry*>(&entry));
  lua_pushvalue(a.L, lua_upvalueindex(2));
  lua_pushvalue(a.L, 3);
  lua_pushcclosure(a.L, call, 3);
  return 1;
}

/// Pushes a table with the common properties of operations, reductions and scans.
void push_info(Args& a, const auto& info, int params) {
  std::vector<std::string_view> names;
  std::vector<double> values;
  for (int k = 0; k < params; ++k)
    names.push_back(info.params[k].name), values.push_back(info.params[k].value);
  lua_newtable(a.L);
  a.set("name", info.name), a.set("doc", info.doc), a.set("lo", info.domain.lo),
      a.set("hi", info.domain.hi);
  a.set("params", names), a.set("values", values);
}

/// The elementwise operations, for the benchmark and the reference.
int operations(Args& a) {
  static const char* const accepts[] = {"any", "number", "real", "integer"};
  lua_createtable(a.L, kOps, 0);
  for (int i = 0; i < kOps; ++i) {
    const OpRow& row = op_row(i);
    push_info(a, *row.info, row.params);
    a.set("inputs", row.inputs), a.set("answers_bool", row.answers_bool);
    a.set("mask_first", row.mask_first), a.set("accepts", accepts[int(row.info->accepts)]);
    lua_rawseti(a.L, -2, i + 1);
  }
  return 1;
}

int misfit(Args& a) {
  static std::mutex guard;
  static std::unordered_map<std::string, Signature> types;
  const std::lock_guard lock(guard);
  const auto [at, fresh] = types.try_emplace(a.text(1));
  if (fresh) at->second = parse_signature("f(x: " + at->first + ")", nullptr, 0);
  const Param& p = at->second.params[0];
  return a.fits(p, 2) ? 0 : a.push(p.expected());
}

/// The reductions and scans that are public functions, for tests and the benchmark.
int reductions(Args& a) {
  static const char* const takes[] = {"any", "real", "floats", "bools"};
  lua_newtable(a.L);
  for (int i = 0, n = 0; i < kReductions + kScans; ++i) {
    const ReduceRow& row = i < kReductions ? reduce_row(i) : scan_row(i - kReductions);
    if (!row.info->doc) continue;
    push_info(a, *row.info, row.params);
    a.set("scan", i >= kReductions), a.set("differentiable", row.differentiable);
    a.set("takes", takes[int(row.info->takes)]);
    lua_rawseti(a.L, -2, ++n);
  }
  return 1;
}

int parameters_of(Args& a) {
  const bool text = lua_type(a.L, 1) == LUA_TSTRING;
  const Entry* e = lua_gettop(a.L) > 0 && !text ? entry_at(a.L, 1) : nullptr;
  if (!e && !text) return 0;
  const Signature s = e ? signature_of(*e) : parse_signature(a.text(1), nullptr, 0);
  lua_newtable(a.L);
  int n = 0;
  for (const Param& p : s.params) {
    lua_newtable(a.L);
    a.set("name", p.name), a.set("type", type_text(p));
    a.set("list", p.list), a.set("collects", p.collect);
    if (p.optional) a.set("default", p.default_text);
    if (p.low > -INFINITY) a.set("low", p.low);
    if (p.high < INFINITY) a.set("high", p.high);
    lua_rawseti(a.L, -2, ++n);
  }
  a.set("open", s.open), a.set("out", s.out);
  return !e || !e->body.results ? 1 : 1 + a.push(e->body.results);
}

/// Returns a table filled by `add`.
template <void (*add)(lua_State*)> int table_of(Args& a) {
  lua_newtable(a.L);
  add(a.L);
  return 1;
}

constexpr const char* kPart = "C functions of a part of the library.";

const Entry kLanguage[] = {
    {"fail(message)", "An error at the user's line.",
     [](Args& a) -> int { throw Error(a.text(1)); }},
    {"nearest(names, name)", "The entry of a list that is nearest to a name, or an empty string.",
     bind<nearest>},
    {"hint(sentence)", "A sentence on stderr, once for each line of the script.", bind<hint>},
    {"describe(..)", "How errors show a value.", [](Args& a) { return a.push(describe(a.L, 1)); }},
    {"hint_of_surplus(..)", "The end of an error about too many arguments, of which this is one.",
     [](Args& a) { return a.push(std::string(hint_of_surplus(a.L, 1))); }},
    {"declare(signature, doc, fn, keeps_names=false)",
     "A function whose arguments are matched to the signature, and checked where it states types; "
     "keeps_names: errors of functions that it calls keep their names.",
     declare},
    {"complete()", "Creates all functions and methods; returns their subjects, lists with a title.",
     [](Args& a) {
       open_all(a.L);
       return 1;
     }},
    {"open(name)", "Creates the functions with this name; returns whether there are any.",
     [](Args& a) { return a.push(open_name(a.L, a.text(1))); }},
    {"cuda()", kPart, table_of<add_cuda>},
    {"cuda_kernel()", kPart, table_of<add_cuda_kernel>},
    {"dist()", kPart, table_of<add_dist>},
    {"dist_parts()", kPart, table_of<add_dist_parts>},
    {"fft()", kPart, table_of<add_fft>},
    {"formats()", kPart, table_of<add_formats>},
    {"gradient()", kPart, table_of<add_gradient>},
    {"linalg()", kPart, table_of<add_linalg>},
    {"loader()", kPart, table_of<add_loader>},
    {"tokenizer()", kPart, table_of<add_tokenizer>},
    {"watch()", kPart, table_of<add_watch>},
#ifdef MT_WITH_COMPILER
    {"compile()", kPart, table_of<add_compile>},
    {"grid_kernel()", kPart, table_of<add_grid_kernel>},
#endif
    {"chunks(name)",
     "The texts of the chunks of this name that the program was given, a list; it keeps what is added.",
     [](Args& a) { return push_chunks(a.L, a.text(1).c_str()), 1; }},
    {"data_address(x)", "The address of the first element, for x:data().",
     [](Args& a) {
       const Tensor& x = a.tensor(1);
       if (!x.is_contiguous())
         fail("data: the tensor is not contiguous; use x:contiguous():data()");
       if (&x.device() != &cpu_device())
         fail("data: the tensor is on {}; use x:cpu():data()", x.device().name);
       if (x.dtype() == Dtype::f32)
         make_nans_readable<float>(*x.impl()->storage, 0xff800000u, 0xffc00000u);
       if (x.dtype() == Dtype::f64)
         make_nans_readable<double>(*x.impl()->storage, uint64_t(0xfff0) << 48,
                                    uint64_t(0xfff8) << 48);
       lua_pushlightuserdata(a.L, x.data_as<char>());
       lua_pushstring(a.L, dtype_ctype(x.dtype()));
       return 2;
     } | kWantsNumbers},
    {"operations()", "The elementwise operations: name, inputs, parameters, where to sample.",
     operations},
    {"reductions()", "The reductions and scans: name, what they take, parameters, where to sample.",
     reductions},
    {"entry(..)",
     "The signature of a function without its types, its help, its ranges and choices; or "
     "nothing.",
     [](Args& a) {
       const Entry* e = lua_gettop(a.L) > 0 ? entry_at(a.L, 1) : nullptr;
       if (!e) return 0;
       std::string signature = signature_of(*e).text;
       if (const size_t self = signature.find("(self"); self != std::string::npos)
         signature.erase(self + 1, signature[self + 5] == ',' ? 6 : 4);
       return a.push(signature, e->doc, limits(signature_of(*e)));
     }},
    {"parameters(..)",
     "What a function or a signature takes: a list of {name=, type=, default=, list=, collects=, low=, "
     "high=}, with .open ('..') and .out; nothing where nothing is known. Types are as in signatures, "
     "defaults text. Then the types of the results, \"tensor, tensor?\", where they are known.",
     parameters_of},
    {"misfit(type, ..)",
     "(type, value): what a value must be to have a type, written as in signatures; nothing if it has it.",
     misfit},
    {"set_data(x, y)", "Gives x the data of y; x keeps its gradient and its identity.",
     bind<replace_data> | kReturnsSelf},
};

int load_embedded(lua_State* L) {
  const Embedded& e = *static_cast<const Embedded*>(lua_touserdata(L, lua_upvalueindex(1)));
  if (luaL_loadbuffer(L, e.bytecode, e.bytecode_size, e.chunk) != 0) {  // from another LuaJIT
    lua_pop(L, 1);
    if (luaL_loadbuffer(L, e.source, e.source_size, e.chunk) != 0) return lua_error(L);
  }
  keep_loops_interpreted(L);
  lua_pushstring(L, e.name);
  lua_call(L, 1, 1);
  return 1;
}

/// Prepares a module's function as load_embedded does.
int prepare_loaded(lua_State* L) {
  lua_settop(L, 1);
  keep_loops_interpreted(L);
  return 1;
}

/// __index of package.preload: the loader of an embedded module.
int find_embedded(lua_State* L) {
  const std::string_view name = text_at(L, 2);
  for (size_t i = 0; i < embedded_count; ++i) {
    if (name != embedded[i].name) continue;
    lua_pushlightuserdata(L, const_cast<Embedded*>(&embedded[i]));
    lua_pushcclosure(L, load_embedded, 1);
    return 1;
  }
  return 0;
}

// Finds mtorch.a.b in FOLDER/a/b.lua or FOLDER/a/b/init.lua, before the embedded modules.
constexpr char kFromFolder[] = R"lua(local folder, prepare = ...
local preloaded = package.loaders[1]
package.loaders[1] = function(name)
  local path = name:match('^mtorch%.(.+)$')
  if not path then return preloaded(name) end
  for _, tail in ipairs{'.lua', '/init.lua'} do
    local inner = path:gsub('%.', '/') .. tail
    local file = io.open(folder .. '/' .. inner, 'rb')
    if file then
      local text = file:read('*a')
      file:close()
      return prepare(assert(loadstring(text, '@mtorch/' .. inner)))
    end
  end
  return preloaded(name)
end)lua";

/// `require` finds embedded modules; modules in the folder MTORCH_LUA (bindings/lua of a checkout)
/// come first, so that a change of the Lua library needs no build.
void preload(lua_State* L) {
  if (const char* folder = std::getenv("MTORCH_LUA"); folder && *folder) {
    if (luaL_loadstring(L, kFromFolder) != 0) lua_error(L);
    lua_pushstring(L, folder);
    lua_pushcfunction(L, prepare_loaded);
    lua_call(L, 2, 0);
  }
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "preload");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, find_embedded);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 2);
}

void set_loaded(lua_State* L, const char* name) {  // package.loaded[name] = top
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "loaded");
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, name);
  lua_pop(L, 2);
}

}  // namespace

void push_chunks(lua_State* L, const char* name) {
  luaL_newmetatable(L, "mtorch.chunks");
  lua_getfield(L, -1, name);
  if (lua_isnil(L, -1)) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, name);
  }
  lua_remove(L, -2);
}

void open_core(lua_State* L) {
  add_internal(L, kCore);
  add_internal(L, kLanguage, Reach::tensors);
  for (AddFunctions* const part : {add_files, add_optim, add_record, add_profile}) part(L);
  luaL_getmetatable(L, "mtorch.methods");
  lua_setfield(L, -2, "methods");
}

}  // namespace mt::lua

namespace mt {

void open_lua(lua_State* L) {
  using namespace lua;
  set_host();
  profile::start_log();
  luaL_newmetatable(L, "mtorch.methods");
  luaL_newmetatable(L, "mtorch.shape");
  lua_pop(L, 2);
  preload(L);
  open_tensor(L);
  open_operators(L);
  luaL_newmetatable(L, "mtorch.module");
  open_markers(L);
  lua_newtable(L);  // the core
  open_core(L);
  set_loaded(L, "mtorch.core");
  // init.lua finishes the module: init(mt, core, methods, tensor metatable, shape metatable)
  lua_getglobal(L, "require");
  lua_pushliteral(L, "mtorch.init");
  lua_call(L, 1, 1);
  lua_pushvalue(L, -3);
  lua_pushvalue(L, -3);
  luaL_getmetatable(L, "mtorch.methods");
  push_registered(L, &kMetatable);
  luaL_getmetatable(L, "mtorch.shape");
  lua_call(L, 5, 0);
  lua_pop(L, 1);
  set_loaded(L, "mtorch");
}

}  // namespace mt
