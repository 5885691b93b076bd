// Opens the files of a bundle. A path in model.textproto is untrusted: it must be relative, without
// "..", and what it resolves to, links included, must be inside one of the allowed folders
// (Resolve).
//
// If the bundle has a manifest (as sha256sum writes it), every file that is read is compared with
// its digest, and files that are listed but not read are compared at the end (CheckRest). The
// digest of a large file, such as weights, is computed on another thread while the graph is
// compiled (ops::CheckMeanwhile); the load fails if it differs.
#include "engine/bundle/bundle_files.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ops/base/check.h"
#include "ops/base/status.h"
#include "ops/tensor/tensor_memory.h"

namespace beamwright::bundle {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxManifestBytes = int64_t{1} << 20;
constexpr size_t kDigestLength = 64;
// Some milliseconds of hashing.
constexpr int64_t kLeastHashedMeanwhile = int64_t{4} << 20;

absl::StatusOr<std::string> Canonical(const fs::path& path) {
  std::error_code error;
  const fs::path resolved = fs::canonical(path, error);
  if (error) {
    return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot open '", path.string(), "'"));
  }
  return resolved.string();
}

bool IsBelow(const std::string& path, const std::string& root) {
  const fs::path relative = fs::path(path).lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

absl::Status CheckRelative(const std::string& path) {
  const fs::path parsed(path);
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Invalid("'", absl::CEscape(path), "' is not a valid path");
  }
  if (parsed.is_absolute()) {
    return Invalid("'", path, "' is an absolute path; give it relative to the bundle's folder");
  }
  if (std::find(parsed.begin(), parsed.end(), "..") != parsed.end()) {
    return Invalid("'", path, "' leaves the bundle's folder");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Sha256Of(const InputFile& file) {
  constexpr int64_t kPart = int64_t{1} << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  BW_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  std::string part;
  for (int64_t at = 0; at < file.size(); at += kPart) {
    part.resize(static_cast<size_t>(std::min(kPart, file.size() - at)));
    BW_RETURN_IF_ERROR(file.Read(at, static_cast<int64_t>(part.size()), part.data()));
    BW_CHECK(EVP_DigestUpdate(context.get(), part.data(), part.size()) == 1);
  }
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  BW_CHECK(EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()),
                              nullptr) == 1);
  return absl::BytesToHexString(digest);
}

absl::Status Compare(const std::string& path, const std::string& digest,
                     const std::string& listed) {
  return digest == listed ? absl::OkStatus()
                          : absl::DataLossError(absl::StrCat(
                                "'", path, "' is not the file that ", kManifestName,
                                " lists: its SHA-256 is ", digest, ", listed is ", listed));
}

}  // namespace

std::string Sha256(absl::string_view content) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), sizeof(digest)));
}

absl::StatusOr<BundleFiles> BundleFiles::Open(const std::string& folder,
                                              const std::vector<std::string>& roots) {
  BundleFiles files;
  files.folder_ = folder;
  for (const std::string& root : roots) {
    BW_ASSIGN_OR_RETURN(files.resolved_roots_.emplace_back(), Canonical(root));
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return Invalid("'", folder, "' is not a folder");
  }
  if (IsThere((fs::path(folder) / kManifestName).string())) {
    const absl::Status status = files.ReadManifest();
    if (!status.ok()) {
      return Annotate(status, kManifestName);
    }
  }
  return files;
}

absl::Status BundleFiles::ReadManifest() {
  BW_ASSIGN_OR_RETURN(const std::string path, Resolve(kManifestName));
  BW_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxManifestBytes));
  int number = 0;
  for (absl::string_view line : absl::StrSplit(content, '\n')) {
    ++number;
    if (line.empty()) {
      continue;
    }
    // As sha256sum writes it: digest, a blank, then a blank (text) or an asterisk (binary).
    const std::string digest = absl::AsciiStrToLower(line.substr(0, kDigestLength));
    const bool formed = line.size() > kDigestLength + 2 && line[kDigestLength] == ' ' &&
                        (line[kDigestLength + 1] == ' ' || line[kDigestLength + 1] == '*') &&
                        digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!formed) {
      return Invalid("line ", number, " is not '<64 hex digits>  <path>', as sha256sum writes it");
    }
    const std::string name(line.substr(kDigestLength + 2));
    const absl::Status status = CheckRelative(name);
    if (!status.ok()) {
      return Annotate(status, absl::StrCat("line ", number));
    }
    if (!digests_.emplace(fs::path(name).lexically_normal().string(), digest).second) {
      return Invalid("line ", number, ": '", name, "' is listed already");
    }
  }
  unchecked_ = digests_;
  return absl::OkStatus();
}

absl::StatusOr<std::string> BundleFiles::Resolve(const std::string& path) const {
  BW_RETURN_IF_ERROR(CheckRelative(path));
  BW_ASSIGN_OR_RETURN(const std::string resolved, Canonical(fs::path(folder_) / path));
  const bool is_inside =
      std::any_of(resolved_roots_.begin(), resolved_roots_.end(),
                  [&](const std::string& root) { return IsBelow(resolved, root); });
  if (!is_inside) {
    return Invalid("'", path, "' links to '", resolved, "', outside of '",
                   absl::StrJoin(resolved_roots_, "' and '"), "'");
  }
  return resolved;
}

absl::StatusOr<std::string> BundleFiles::Read(const std::string& path, int64_t max_bytes) {
  BW_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  BW_ASSIGN_OR_RETURN(std::string content, ReadFile(resolved, max_bytes));
  BW_RETURN_IF_ERROR(CheckDigest(path, Sha256(content)));
  return content;
}

absl::StatusOr<std::shared_ptr<const InputFile>> BundleFiles::OpenFile(const std::string& path) {
  BW_ASSIGN_OR_RETURN(const std::string resolved, Resolve(path));
  BW_ASSIGN_OR_RETURN(std::shared_ptr<const InputFile> file, InputFile::Open(resolved));
  const std::string name = fs::path(path).lexically_normal().string();
  const auto listed = digests_.find(name);
  if (listed != digests_.end()) {
    const auto check = [file, path, expected = listed->second]() -> absl::Status {
      BW_ASSIGN_OR_RETURN(const std::string digest, Sha256Of(*file));
      return Compare(path, digest, expected);
    };
    if (file->size() < kLeastHashedMeanwhile || !ops::CheckMeanwhile(check)) {
      BW_RETURN_IF_ERROR(check());
    }
    unchecked_.erase(name);
  }
  return file;
}

absl::Status BundleFiles::CheckDigest(const std::string& path, const std::string& digest) {
  const std::string name = fs::path(path).lexically_normal().string();
  const auto listed = digests_.find(name);
  if (listed == digests_.end()) {
    return absl::OkStatus();
  }
  BW_RETURN_IF_ERROR(Compare(path, digest, listed->second));
  unchecked_.erase(name);
  return absl::OkStatus();
}

absl::Status BundleFiles::CheckRest() {
  while (!unchecked_.empty()) {
    const std::string path = unchecked_.begin()->first;
    const absl::Status status = OpenFile(path).status();
    if (!status.ok()) {
      return Annotate(status, kManifestName);
    }
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<std::string> ReadIfThere(const std::string& folder,
                                        absl::Span<const std::string> allow_links,
                                        const char* name) {
  if (!IsThere((std::filesystem::path(folder) / name).string())) {
    return std::string();
  }
  // Versions may share a file by a link within the model's folder, as of other files.
  const std::filesystem::path path(folder);
  std::vector<std::string> roots = {path.parent_path().string()};
  roots.insert(roots.end(), allow_links.begin(), allow_links.end());
  BW_ASSIGN_OR_RETURN(BundleFiles files, BundleFiles::Open(folder, roots));
  return files.Read(name, kMaxRequestFileBytes);
}

}  // namespace

absl::StatusOr<std::string> ReadGolden(const std::string& folder,
                                       absl::Span<const std::string> allow_links) {
  return ReadIfThere(folder, allow_links, "golden.jsonl");
}

absl::StatusOr<std::string> ReadWarmUp(const std::string& folder,
                                       absl::Span<const std::string> allow_links) {
  return ReadIfThere(folder, allow_links, "warmup.jsonl");
}

}  // namespace beamwright::bundle
