// download.cpp -- downloads with libcurl, which is loaded at first use
#include "engine/io/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>

#include "engine/io/bytes.h"
#include "engine/io/required_library.h"

extern "C" {  // of openssl/evp.h
struct evp_md_st;
const evp_md_st* EVP_sha256();
const evp_md_st* EVP_md5();
int EVP_Digest(const void*, size_t, unsigned char*, unsigned int*, const evp_md_st*, void*);
}

namespace mt {
namespace {

struct Curl : RequiredLibrary {
  Curl() : RequiredLibrary("downloads", "libcurl4", {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    const decltype(&::curl_global_init) start = find("curl_global_init");
    start(CURL_GLOBAL_DEFAULT);
  }
};
#define LIBCURL(name) MT_LOADED(Curl, name)

struct Crypto : RequiredLibrary {
  Crypto() : RequiredLibrary("checksums", "libssl3", {"libcrypto.so.3", "libcrypto.so.1.1"}) {}
};
#define LIBCRYPTO(name) MT_LOADED(Crypto, name)

struct Transfer {
  const std::string& url;
  const Expected& expected;
  const std::function<void(uint64_t, uint64_t)>& progress;
  File file;  // path.part
  uint64_t had = 0, have = 0;
  std::string write_error;  // errors when writing the file

  static size_t on_data(char* data, size_t, size_t n, void* self) {
    Transfer& t = *static_cast<Transfer*>(self);
    if (t.have + n > t.expected.most)
      return t.write_error = fmt::format("it is longer than {} bytes", t.expected.most), 0;
    if (!t.file.write({data, n})) return t.write_error = std::strerror(errno), 0;
    t.have += n;
    return n;
  }
  static int on_progress(void* self, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
    const Transfer& t = *static_cast<Transfer*>(self);
    t.progress(t.had + uint64_t(now), total > 0 ? t.had + uint64_t(total) : 0);
    return mt_interrupted ? 1 : 0;
  }

  /// Fetches the missing bytes; returns CURLE_OK, or an error that `reason` describes.
  CURLcode fetch(std::string& reason) {
    CURL* const handle = LIBCURL(curl_easy_init)();
    if (!handle) fail("libcurl gives no handle");
    char text[CURL_ERROR_SIZE] = "";
    have = had;
    write_error.clear();
    lseek(file.fd(), off_t(had), SEEK_SET);
    const auto set = [&](CURLoption option, auto value) {
      LIBCURL(curl_easy_setopt)(handle, option, value);
    };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_ERRORBUFFER, text);
    set(CURLOPT_USERAGENT, "mtorch");
    set(CURLOPT_FOLLOWLOCATION, 1L), set(CURLOPT_MAXREDIRS, 8L);
    set(CURLOPT_FAILONERROR, 1L), set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, 20L);
    set(CURLOPT_LOW_SPEED_LIMIT, 50L), set(CURLOPT_LOW_SPEED_TIME, 30L);
    set(CURLOPT_WRITEFUNCTION, &on_data), set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_XFERINFOFUNCTION, &on_progress), set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    if (had) set(CURLOPT_RESUME_FROM_LARGE, curl_off_t(had));
    CURLcode code = LIBCURL(curl_easy_perform)(handle);
    long status = 0;
    LIBCURL(curl_easy_getinfo)(handle, CURLINFO_RESPONSE_CODE, &status);
    LIBCURL(curl_easy_cleanup)(handle);
    if (code == CURLE_HTTP_RETURNED_ERROR && status == 416) code = CURLE_RANGE_ERROR;
    reason = !write_error.empty() ? write_error : *text ? text : LIBCURL(curl_easy_strerror)(code);
    return code;
  }
};

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(uint8_t(c)));
  return text;
}

/// The message if the checksum of the bytes is wrong, or "".
std::string wrong_sum(const Expected& expected, const std::string& bytes) {
  for (const auto& [kind, sum] :
       {std::pair("sha256", expected.sha256), std::pair("md5", expected.md5)}) {
    if (sum.empty()) continue;
    const std::string found = digest(kind, bytes);
    if (found != lower(sum))
      return fmt::format("its {} is {}, {} was expected", kind, found, lower(sum));
  }
  return "";
}

void run(Transfer& t, const std::string& part) {
  std::string reason;
  for (int attempt = 0;; ++attempt) {
    struct stat s {};
    if (fstat(t.file.fd(), &s) != 0) fail("{}", std::strerror(errno));
    t.had = uint64_t(s.st_size);
    const bool resumed = t.had > 0;
    const CURLcode code = t.fetch(reason);
    check_interrupt();
    // A part may be complete, of another file, or of a server without range requests.
    if (code != CURLE_OK && code != CURLE_RANGE_ERROR && code != CURLE_BAD_DOWNLOAD_RESUME)
      fail("{}", reason);
    const bool summed = !t.expected.sha256.empty() || !t.expected.md5.empty();
    if (code == CURLE_OK || summed) {
      const std::string wrong = wrong_sum(t.expected, read_file("download", part));
      if (wrong.empty()) return;
      reason = wrong;
    }
    if (ftruncate(t.file.fd(), 0) != 0) fail("{}", std::strerror(errno));
    if (!resumed || attempt > 0) fail("{}", reason);
  }
}

}  // namespace

std::string digest(const std::string& kind, const std::string& bytes) {
  unsigned char sum[64];
  unsigned int n = 0;
  const evp_md_st* const which = kind == "md5" ? LIBCRYPTO(EVP_md5)() : LIBCRYPTO(EVP_sha256)();
  if (!which || !LIBCRYPTO(EVP_Digest)(bytes.data(), bytes.size(), sum, &n, which, nullptr))
    fail("checksums: libcrypto cannot compute {}", kind);
  std::string text;
  for (unsigned i = 0; i < n; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

void download(const std::string& url, const std::string& path, const Expected& expected,
              const std::function<void(uint64_t, uint64_t)>& progress) {
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    fail("download: '{}' must begin with http:// or https://", printable(url));
  check_writable("download", path);
  const std::string part = path + ".part";
  Transfer t{url,      expected,
             progress, File(open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)),
             0,        0,
             ""};
  if (!t.file) fail("download: cannot write '{}': {}", part, std::strerror(errno));
  if (flock(t.file.fd(), LOCK_EX | LOCK_NB) != 0)
    fail("download: another process is writing '{}'", part);
  try {
    run(t, part);
  } catch (const Error& e) {
    check_interrupt();
    fail("download: {}: {}", printable(url), e.what());
  }
  if (fsync(t.file.fd()) != 0 || rename(part.c_str(), path.c_str()) != 0)
    fail("download: cannot write '{}': {}", path, std::strerror(errno));
}

}  // namespace mt
