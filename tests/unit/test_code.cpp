// test_code.cpp -- kernels as text: what is read of CUDA C, and the cache of what was made of it
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "engine/gpu/cuda_signature.h"
#include "engine/gpu/disk_cache.h"
#include "engine/gpu/nvrtc.h"
#include "tests/unit/folder.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

namespace fs = std::filesystem;

/// "const float m (float32 2x3); int n" of the first kernel: what a parameter is, and its name.
std::string show_type(const CudaType& t) {
  std::string s;
  switch (t.kind) {
    case CudaType::unknown: return "?";
    case CudaType::boolean: return "bool";
    case CudaType::integer: return fmt::format("{}int{}", t.is_signed ? "" : "u", 8 * t.bytes);
    case CudaType::floating: return fmt::format("float{}", 8 * t.bytes);
    case CudaType::accessor:
      return fmt::format("{}{} of {}", t.read_only ? "const " : "", t.element, t.rank);
    case CudaType::pointer: break;
  }
  s = t.read_only ? "const " : "";
  s += t.element.empty() ? "none" : t.element;
  if (t.lanes > 1) s += fmt::format("x{}", t.lanes);
  s += "*";
  for (const int64_t n : t.sizes) s += fmt::format("[{}]", n);
  return s;
}
std::string show_parameters(const std::vector<CudaParameter>& list) {
  std::string s;
  for (const CudaParameter& p : list)
    s += (s.empty() ? "" : ", ") + show_type(p.type) + (p.name.empty() ? "" : " " + p.name);
  return s;
}
std::string kernels_of(const std::string& source) {
  std::string s;
  for (const CudaFunction& f : read_cuda(source).kernels)
    s += fmt::format("{}{}{}({})", s.empty() ? "" : "; ", f.is_template ? "template " : "", f.name,
                     show_parameters(f.parameters));
  return s;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

TEST_CASE("kernels and their parameters are read", "[code]") {
  CHECK(kernels_of("__global__ void f(float* m, const float* f, double *out, int n) {}") ==
        "f(float32* m, const float32* f, float64* out, int32 n)");
  CHECK(
      kernels_of(
          "extern \"C\" __global__ void __launch_bounds__(256, 2) k(unsigned char *__restrict__ u, "
          "bool const* b, long long *q, unsigned long long t, bool flag)") ==
      "k(uint8* u, const bool* b, int64* q, uint64 t, bool flag)");
  CHECK(kernels_of("static __global__ __launch_bounds__((1 + 2) * 64) void k();") == "k()");
  CHECK(kernels_of("__global__ void k(void) {}") == "k()");
  CHECK(kernels_of("__global__ [[maybe_unused]] __attribute__((used)) void k(float x) {}") ==
        "k(float32 x)");
  CHECK(kernels_of(
            "__global__ void k(float, int*, unsigned, unsigned short n, const signed char) {}") ==
        "k(float32, int32*, uint32, uint16 n, int8)");
  CHECK(kernels_of("__global__ void k(float x[], const float y[4], float z[5][3], const double "
                   "(*w)[2][7]) {}") ==
        "k(float32* x, const float32* y, float32*[3] z, const float64*[2][7] w)");
  CHECK(kernels_of(
            "__global__ void k(const float4* v, int2 *w, __half* h, const __nv_bfloat16* b) {}") ==
        "k(const float32x4* v, int32x2* w, float16* h, const bfloat16* b)");
  CHECK(kernels_of("__global__ void k(float* const x, float *const __restrict__ y, const float* "
                   "const z) {}") == "k(float32* x, float32* y, const float32* z)");
  CHECK(
      kernels_of("__global__ void k(std::size_t n, int64_t m, std::uint8_t* u, ::uint32_t v) {}") ==
      "k(uint64 n, int64 m, uint8* u, uint32 v)");
}

TEST_CASE("what a kernel's parameter cannot be is unknown", "[code]") {
  CHECK(kernels_of("__global__ void k(float** x, float& y, Point p, const Point* q, void* v) {}") ==
        "k(? x, ? y, ? p, ? q, ? v)");
  CHECK(kernels_of("__global__ void k(void (*f)(int, float), Pair<int, float> p, T x) {}") ==
        "k(? f, ? p, ? x)");
  CHECK(
      kernels_of("__global__ void k(char* text, short* s, unsigned short* u, long double x) {}") ==
      "k(int8* text, int16* s, none* u, ? x)");
}

TEST_CASE("templates, comments, strings and spliced lines do not confuse", "[code]") {
  CHECK(kernels_of("template <class T, int N = (3 > 2)> __global__ void k(T* x, int n) {}") ==
        "template k(? x, int32 n)");
  CHECK(kernels_of("template <> __global__ void k<float>(float* x) {}") == "k(float32* x)");
  CHECK(kernels_of("// __global__ void a(int x)\n/* __global__ void b(int x) */ __global__ void "
                   "c(/* , */ int x // )\n)") == "c(int32 x)");
  CHECK(kernels_of("const char* s = \"__global__ void a(int x) \\\" {\"; char c = '\"'; __global__ "
                   "void d(int x);") == "d(int32 x)");
  CHECK(kernels_of("auto s = R\"x(__global__ void a(int) )\" )x\"; __global__ void d(int x);") ==
        "d(int32 x)");
  CHECK(kernels_of("__glo\\\nbal__ void \\\r\n k(flo\\\nat* x) {}") == "k(float32* x)");
  CHECK(kernels_of(
            "// a comment that goes on \\\n__global__ void a(int x);\n__global__ void b(int y);") ==
        "b(int32 y)");
  CHECK(kernels_of("#define K __global__ void a(int x)\n__global__ void b(int y);") ==
        "b(int32 y)");
  CHECK(read_cuda("#define K __global__ void a(int x)\n").hides);
  CHECK(kernels_of("__global__ void a(int x = f(1, 2), int y = g<1, 2>(3));") ==
        "a(int32 x, int32 y)");
  CHECK(kernels_of("__global__ void a(int); __global__ void b(float x) { c(1); }") ==
        "a(int32); b(float32 x)");
}

TEST_CASE("a text that is none of CUDA C does no harm", "[code]") {
  for (const char* hostile : {"",
                              "__global__",
                              "__global__ void",
                              "__global__ void f",
                              "__global__ void f(",
                              "__global__ void f(int",
                              "__global__ void f(int,",
                              "__global__ void f(,,)",
                              "__global__ void f(((((((",
                              "__global__ f<",
                              "__global__ <>",
                              "__global__ void f(int x[",
                              "__global__ void f(float (*",
                              "/*",
                              "//",
                              "\"",
                              "R\"",
                              "R\"x(",
                              "'",
                              "\\",
                              "#",
                              "%:",
                              "__constant__",
                              "__constant__ float",
                              "__constant__ float f[",
                              "__constant__ ;",
                              "__device__ x = {",
                              "]})>",
                              "__global__ [",
                              "__global__ __launch_bounds__(",
                              "#include",
                              "#include <",
                              "# /*",
                              "__global__ void f(*)",
                              "__global__ void f(=)",
                              "__global__ void f(const)",
                              "__global__ void f([3])",
                              "__global__ void f(<)"})
    for (const char* behind : {"", " ", "\n", ")", "{", "\"", "\\"}) {
      const std::string text = std::string(hostile) + behind;
      CHECK_NOTHROW(read_cuda(text));
      CHECK_NOTHROW(parse_parameters(text));
    }
  Rng rng(7);
  const char* const pieces[] = {"__global__", "__constant__",
                                "void",       "f",
                                "(",          ")",
                                "<",          ">",
                                "[",          "]",
                                "{",          "}",
                                ",",          ";",
                                "*",          "const",
                                "float",      "int",
                                "=",          "\"",
                                "'",          "//",
                                "/*",         "*/",
                                "\n",         "\\\n",
                                "#",          "include",
                                "template",   "::",
                                "R\"(",       ")\"",
                                "3",          " "};
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int64_t n = rng.below(14); n >= 0; --n) text += pieces[rng.below(std::size(pieces))];
    CHECK_NOTHROW(read_cuda(text));
    CHECK_NOTHROW(parse_parameters(text));
  }
}

TEST_CASE("variables, includes and what depends on lines are noticed", "[code]") {
  const CudaText t = read_cuda(
      "__constant__ float F_c[2 * R + 1][3], scale = 2;\nstatic __device__ const int n{4};\n"
      "__device__ float helper(float x) { return x; }\n__device__ __constant__ Point p;");
  std::string s;
  for (const CudaVariable& v : t.variables)
    s += fmt::format("{} {};", v.type.element.empty() ? "?" : v.type.element, v.name);
  CHECK(s == "float32 F_c;float32 scale;int32 n;? p;? p;");
  CHECK_FALSE(t.includes);
  CHECK(read_cuda("#include <cuda_fp16.h>").includes);
  CHECK_FALSE(read_cuda("#include <cuda_fp16.h>").reads_files);
  CHECK(read_cuda("  #  include \"mine.h\"").reads_files);
  CHECK(read_cuda("/* */ %: include /* */ \"mine.h\"").reads_files);
  CHECK(read_cuda("#inc\\\nlude NAME").reads_files);
  CHECK_FALSE(
      read_cuda("// we include \"the\" edge\nconst char* s = \"#include \\\"x\\\"\";").includes);
  CHECK(read_cuda("__global__ void k() { assert(1); }").says_where);
  CHECK(read_cuda("#define HERE __LINE__").says_where);
  CHECK_FALSE(read_cuda("// assert\nint x;").says_where);
  CHECK(read_cuda("void k() { printf(\"x\"); }").prints);
  CHECK_FALSE(read_cuda("// printf").prints);
}

TEST_CASE("the demangler's form is read", "[code]") {
  CHECK(show_parameters(parse_parameters(
            "mt_signature_<void (*)(float*, float const*, float const (*) [3], int, long "
            "long, unsigned char*, bool, float4 const*, unsigned long)>")) ==
        "float32*, const float32*, const float32*[3], int32, int64, uint8*, bool, const "
        "float32x4*, uint64");
  CHECK(show_parameters(parse_parameters("()")) == "");
  CHECK(show_parameters(parse_parameters("(Pair<int, float>, int)")) == "?, int32");
}

TEST_CASE("the cache gives back what was stored", "[code]") {
  const Folder folder;
  const DiskCache cache(folder.path + "/deep/below");
  CHECK_FALSE(cache.find("key"));
  const std::string value("value\0with a zero", 17);
  REQUIRE(cache.store("key", value));
  CHECK(cache.find("key") == value);
  CHECK_FALSE(cache.find("kez"));
  REQUIRE(cache.store("key", ""));
  CHECK(cache.find("key") == "");
  CHECK(DiskCache(cache.folder()).find("key") == "");
}

TEST_CASE("damaged entries and other keys under the same name are not there", "[code]") {
  const Folder folder;
  const DiskCache cache(folder.path);
  REQUIRE(cache.store("the key", "the value"));
  const std::string path = cache.path_of("the key"), whole = read_file(path);
  for (size_t i = 0; i < whole.size(); ++i) {  // every byte counts
    std::string damaged = whole;
    damaged[i] = char(damaged[i] ^ 1);
    write_file(path, damaged);
    CHECK_FALSE(cache.find("the key"));
    write_file(path, whole.substr(0, i));
    CHECK_FALSE(cache.find("the key"));
  }
  write_file(path, whole + "x");
  CHECK_FALSE(cache.find("the key"));
  write_file(path, whole);
  CHECK(cache.find("the key") == "the value");
  // An entry of another key at this place: as if the names had collided.
  REQUIRE(cache.store("another", "its value"));
  fs::copy_file(cache.path_of("another"), path, fs::copy_options::overwrite_existing);
  CHECK_FALSE(cache.find("the key"));
  REQUIRE(cache.store("the key", "again"));
  CHECK(cache.find("the key") == "again");
  fs::remove(path);
  fs::create_directory(path);
  CHECK_FALSE(cache.find("the key"));
  CHECK_FALSE(cache.store("the key", "x"));
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // reading it must not wait
  CHECK_FALSE(cache.find("the key"));
}

TEST_CASE("a cache that cannot be written is no error", "[code]") {
  CHECK_FALSE(DiskCache("").store("key", "value"));
  CHECK_FALSE(DiskCache("").find("key"));
  CHECK_FALSE(DiskCache("/proc/no/such").store("key", "value"));
  CHECK_FALSE(DiskCache("/dev/null/below").store("key", "value"));
  const Folder folder;
  write_file(folder.path + "/file", "x");
  CHECK_FALSE(DiskCache(folder.path + "/file").store("key", "value"));
  if (geteuid() == 0) return;  // root may write everywhere
  const DiskCache cache(folder.path);
  REQUIRE(cache.store("key", "value"));
  fs::permissions(folder.path, fs::perms::owner_read | fs::perms::owner_exec);
  CHECK(cache.find("key") == "value");
  CHECK_FALSE(cache.store("other", "value"));
}

TEST_CASE("the oldest entries of a full cache go", "[code]") {
  const Folder folder;
  const DiskCache cache(folder.path, 10000);
  const std::string value(1000, 'v');
  write_file(folder.path + "/notes.txt", std::string(20000, 'n'));  // not ours, and no entry
  const auto age = [&](const std::string& key, int hours) {
    std::error_code gone;
    fs::last_write_time(cache.path_of(key),
                        fs::file_time_type::clock::now() - std::chrono::hours(hours), gone);
  };
  for (int i = 0; i < 9; ++i) {
    REQUIRE(cache.store(fmt::format("{}", i), value));
    age(fmt::format("{}", i), 20 - i);
  }
  CHECK(cache.find("0") == value);  // the oldest, but used just now
  REQUIRE(cache.store("9", value));
  CHECK(cache.find("0") == value);
  CHECK_FALSE(cache.find("1"));
  CHECK_FALSE(cache.find("2"));
  CHECK(cache.find("8") == value);
  CHECK(cache.find("9") == value);
  CHECK(fs::exists(folder.path + "/notes.txt"));
  CHECK_FALSE(cache.store("large", std::string(10000, 'x')));
}

TEST_CASE("NVRTC compiles, says where it cannot, and is not asked twice", "[code]") {
  if (const std::string reason = nvrtc_unavailable_reason(); !reason.empty()) {
    WARN("skipped: " << reason);
    return;
  }
  const Folder folder;
  const DiskCache cache(folder.path);
  CudaSource s;
  s.text = "__global__ void k(float* x, const real* y, int n) {\n  x[0] = y[0] * n;\n}\n";
  s.defines = "#define real double\n";
  s.name = "k", s.origins = {{1, "train.lua", 12}};
  const CudaCode fresh = compile_cuda(s, 90, cache);
  CHECK_FALSE(fresh.cached);
  CHECK(fresh.image.substr(1, 3) == "ELF");
  CHECK(fresh.symbol == "_Z1kPfPKdi");
  CHECK(fresh.signature == "(float*, double const*, int)");
  CHECK(folder.files() == 1);
  s.origins[0].line = 40;  // moved in its file: the same code
  const CudaCode kept = compile_cuda(s, 90, cache);
  CHECK(kept.cached);
  CHECK(kept.image == fresh.image);
  CHECK(kept.symbol == fresh.symbol);
  CHECK(kept.signature == fresh.signature);
  CHECK_FALSE(compile_cuda(s, 80, cache).cached);
  s.defines = "#define real float\n";
  CHECK(compile_cuda(s, 90, cache).signature == "(float*, float const*, int)");
  s.options = {"--use_fast_math"};
  CHECK_FALSE(compile_cuda(s, 90, cache).cached);
  CHECK(folder.files() == 4);
  write_file(cache.path_of("nothing"), "x");
  for (const auto& entry : fs::directory_iterator(folder.path)) write_file(entry.path(), "damaged");
  CHECK_FALSE(compile_cuda(s, 90, cache).cached);
  CHECK(compile_cuda(s, 90, cache).cached);

  s.text = "extern \"C\" __global__ void k(const float (*m)[3]) {}";
  CHECK(compile_cuda(s, 90, cache).symbol == "k");
  CHECK(compile_cuda(s, 90, cache).signature == "(float const (*) [3])");
  s.text = "template <class T> __global__ void k(T* x) { x[0] = 1; }", s.name = "k<int>";
  CHECK(compile_cuda(s, 90, cache).signature == "(int*)");
  s.text =
      "#include <cuda_fp16.h>\n__global__ void k(float* y, const __half* x) { y[0] = "
      "__half2float(x[0]); }";
  s.name = "k";
  CHECK(compile_cuda(s, 90, cache).signature == "(float*, __half const*)");
  CHECK(compile_cuda(s, 90, cache).cached);
  s.text = "__global__ void k() {\n\n  x = 1;\n}", s.name = "k", s.origins[0].line = 12;
  CHECK(contains(error_of([&] { compile_cuda(s, 90, cache); }),
                 "'k' does not compile:\ntrain.lua:14: error: identifier \"x\""));
  s.origins[0].place = "odd \"name\\";
  CHECK(contains(error_of([&] { compile_cuda(s, 90, cache); }), "14"));
  s.text = "__global__ void k() {}", s.origins = {{1, "train.lua", 1}}, s.options = {"-arch=sm_80"};
  CHECK(contains(error_of([&] { compile_cuda(s, 90, cache); }),
                 "option '-arch=sm_80' is not supported"));
  s.options = {"--no-such-option"};
  CHECK(contains(error_of([&] { compile_cuda(s, 90, cache); }), "no-such-option"));
  s.options.clear();
  CHECK(contains(error_of([&] { compile_cuda(s, 30, cache); }), "compute capability 3.0"));
  CHECK(compile_cuda(s, 999, cache).image.find(".version") !=
        std::string::npos);  // PTX for what comes
}

MT_TEST("tensors with their shape, and what belongs to the host", "[code]") {
  CHECK(
      kernels_of(
          "__global__ void k(mt::tensor2<const float> m, const mt::tensor3<long long> v, int n) {}") ==
      "k(const float32 of 2 m, int64 of 3 v, int32 n)");
  CHECK(kernels_of(
            "__global__ void k(mt::tensor5<int> a, mt::tensor2<float>& b, mt::tensor1<float*> c, "
            "tensor2<float> d)") == "k(? a, ?, ?, ? d)");
  const std::vector<CudaParameter> seen =
      parse_parameters("(mt::tensor2<float const>, mt::tensor4<double>)");
  CHECK(show_parameters(seen) == "const float32 of 2, float64 of 4");
  CHECK(read_cuda("__global__ void k(mt::tensor1<float> x) {}").accessors);
  CHECK_FALSE(read_cuda("__global__ void k(float* x) {}").accessors);
  CHECK(read_cuda("at::Tensor run(at::Tensor x) { return x; }").has_host_code);
  CHECK(read_cuda("inline void check(cudaError_t e) {}").has_host_code);
  CHECK_FALSE(read_cuda("__device__ int g(int x) { return torc; }").has_host_code);
}

}  // namespace mt::test
