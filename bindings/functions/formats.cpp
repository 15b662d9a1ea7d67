// formats.cpp -- what data/formats.lua is made of: files of other programs as Lua values
#include "bindings/functions/functions.h"
#include "engine/io/bytes.h"
#include "engine/io/csv.h"
#include "engine/io/image.h"
#include "engine/io/wav.h"

namespace mt::lua {
namespace {

/// f(text) of a whole file, unpacked where it is gzip; errors begin with the operation and the path.
template <class F> auto parsed(const char* operation, const std::string& path, const F& f) {
  const std::string text = read_unpacked(operation, path);
  try {
    return f(text);
  } catch (const Error& e) {
    check_interrupt();
    fail("{}: '{}': {}", operation, path, e.what());
  }
}

std::vector<std::string> strings_at(const Args& a, int i) {
  std::vector<std::string> list;
  if (!a.given(i)) return list;
  for (int k = 1, n = int(lua_objlen(a.L, i)); k <= n; ++k) {
    lua_rawgeti(a.L, i, k);
    if (lua_type(a.L, -1) != LUA_TSTRING) a.wrong(i, "a list of strings");
    size_t size;
    const char* const text = lua_tolstring(a.L, -1, &size);
    list.emplace_back(text, size);
    lua_pop(a.L, 1);
  }
  return list;
}

/// The names in order, and a list of columns: tensors and lists of strings.
int read_csv(Args& a) {
  const std::string path = a.text(1), delimiter = a.text(3);
  CsvOptions options{a.boolean(2), ',', strings_at(a, 4)};
  if (!delimiter.empty()) options.delimiter = delimiter[0];
  const std::vector<CsvColumn> columns = parsed("csv", path, [&](const std::string& text) {
    return parse_csv(text.data(), text.size(), options);
  });
  lua_createtable(a.L, int(columns.size()), 0);
  lua_createtable(a.L, int(columns.size()), 0);
  for (size_t k = 0; k < columns.size(); ++k) {
    const CsvColumn& c = columns[k];
    a.push(c.name);
    lua_rawseti(a.L, -3, int(k + 1));
    if (c.numbers.defined()) {
      a.push(c.numbers);
    } else {
      lua_createtable(a.L, int(c.text.size()), 0);
      for (size_t i = 0; i < c.text.size(); ++i) {
        a.push(c.text[i]);
        lua_rawseti(a.L, -2, int(i + 1));
      }
    }
    lua_rawseti(a.L, -2, int(k + 1));
  }
  return 2;
}

int read_wav(Args& a) {
  const Sound sound = parsed("wav", a.text(1), [](const std::string& text) {
    return parse_wav(text.data(), text.size());
  });
  a.push(sound.samples);
  return 1 + a.push(double(sound.rate));
}

const Entry kFormats[] = {
    {"csv(path, header, delimiter, columns=nil)", "The names of columns, the columns.", read_csv},
    {"read(operation, path)", "The bytes of a file, unpacked.",
     bind<[](const std::string& operation, const std::string& path) {
       return read_unpacked(operation.c_str(), path);
     }>},
    {"image(path, channels)", "The pixels of a PNG or JPEG; channels 0: as in the file.",
     bind<[](const std::string& path, int64_t channels) {
       return parsed("image", path, [&](const std::string& text) {
         return decode_image(text.data(), text.size(), int(channels));
       });
     }>},
    {"encode_png(x)", "A PNG of uint8 [channels x height x width].",
     bind<[](const Tensor& x) { return encode_png(x); }>},
    {"encode_jpeg(x, quality)", "A JPEG of uint8 [channels x height x width].",
     bind<[](const Tensor& x, int64_t quality) { return encode_jpeg(x, int(quality)); }>},
    {"wav(path)", "Samples [channels x frames], and the sample rate.", read_wav},
    {"encode_wav(x, rate, bits)", "A WAV of samples [channels x frames]; bits 0: as they are.",
     bind<[](const Tensor& x, int64_t rate, int64_t bits) {
       return write_wav(x, rate, int(bits));
     }>},
};

}  // namespace

void push_formats(lua_State* L) {
  lua_newtable(L);
  add(L, kFormats);
  for (const Entry& e : kFormats) e.internal = true;
}

}  // namespace mt::lua
