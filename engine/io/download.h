// download.h -- files from the web by libcurl, which is opened at first use
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace mt {

/// What a downloaded file must be: its checksum as hexadecimal text, "" for any; at most this long.
struct Expected {
  std::string sha256, md5;
  uint64_t most = uint64_t(1) << 40;
};

/// Fetches url (http, https) into path: as path.part, which a later call takes up where it ended, and
/// under its name once it is whole and its checksum right. progress(done, total) is called now and
/// then; total is 0 where it is not known. Throws a sentence with url and reason.
void download(const std::string& url, const std::string& path, const Expected&,
              const std::function<void(uint64_t, uint64_t)>& progress);

/// The checksum of bytes as hexadecimal text, 'sha256' or 'md5', by libcrypto.
std::string digest(const std::string& kind, const std::string& bytes);

}  // namespace mt
