// Reads and writes the texts of .docx and .odt files, which are zip archives of XML files, with
// libzip in memory.
//
// ReadOfficeFile returns the XML files with text: the document, headers, footers and notes
// (HoldsText). It trusts no size of the archive's directory: entries are unpacked in pieces, and no
// more than kMaxOfficeXmlBytes in all, since a small archive can unpack to any size.
// WriteOfficeFile replaces these files and keeps everything else, times included, so that equal
// input gives equal output.
#include "server/translate/office_package.h"

#include <zip.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"
#include "ops/base/utf8.h"

namespace beamwright::translate {
namespace {

// libzip's errors own memory.
struct ZipError {
  ZipError() { zip_error_init(&error); }
  ~ZipError() { zip_error_fini(&error); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  zip_error_t error;
};

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
using Entry = std::unique_ptr<zip_file_t, Discard>;
using Source = std::unique_ptr<zip_source_t, Discard>;

// `source` outlives the archive, so that what is written can be read from it.
absl::StatusOr<Archive> Open(absl::string_view file, int flags, Source& source) {
  ZipError error;
  source.reset(zip_source_buffer_create(file.data(), file.size(), 0, &error.error));
  if (source == nullptr) {
    return absl::ResourceExhaustedError(zip_error_strerror(&error.error));
  }
  zip_source_keep(source.get());
  Archive archive(zip_open_from_source(source.get(), flags, &error.error));
  if (archive == nullptr) {
    zip_source_free(source.get());
    return Invalid("is not a zip archive: ", zip_error_strerror(&error.error));
  }
  return archive;
}

// Whatever the directory says of its size, no more than max_bytes are unpacked.
absl::StatusOr<std::string> ReadEntry(zip_t* archive, zip_uint64_t index, size_t max_bytes) {
  const Entry entry(zip_fopen_index(archive, index, 0));
  if (entry == nullptr) {
    return Invalid("cannot be unpacked: ", zip_strerror(archive));
  }
  constexpr size_t kChunk = size_t{64} << 10;
  std::string content;
  while (true) {
    const size_t done = content.size();
    content.resize(done + kChunk);
    const zip_int64_t got = zip_fread(entry.get(), content.data() + done, kChunk);
    if (got < 0) {
      return Invalid("cannot be unpacked: ", zip_file_strerror(entry.get()));
    }
    content.resize(done + static_cast<size_t>(got));
    if (got == 0) {
      return content;
    }
    if (content.size() > max_bytes) {
      return Invalid("unpacks to more than is left of ", kMaxOfficeXmlBytes,
                     " bytes, the most that the file's texts may have");
    }
  }
}

// word/header2.xml
bool IsNumbered(absl::string_view name, absl::string_view kind) {
  if (!absl::ConsumePrefix(&name, kind) || !absl::ConsumeSuffix(&name, ".xml")) {
    return false;
  }
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); });
}

bool HoldsText(absl::string_view name, OfficeKind kind) {
  if (kind == OfficeKind::kOdt) {
    return name == "content.xml" || name == "styles.xml";
  }
  return name == "word/document.xml" || name == "word/footnotes.xml" ||
         name == "word/endnotes.xml" || IsNumbered(name, "word/header") ||
         IsNumbered(name, "word/footer");
}

absl::StatusOr<OfficePart> ReadPart(zip_t* archive, zip_uint64_t index, std::string name,
                                    size_t max_bytes) {
  zip_stat_t facts;
  zip_stat_init(&facts);
  if (zip_stat_index(archive, index, 0, &facts) == 0 &&
      (facts.valid & ZIP_STAT_ENCRYPTION_METHOD) && facts.encryption_method != ZIP_EM_NONE) {
    return Invalid("is encrypted");
  }
  OfficePart part{std::move(name), ""};
  BW_ASSIGN_OR_RETURN(part.xml, ReadEntry(archive, index, max_bytes));
  if (!CheckUtf8(part.xml).ok()) {
    return Invalid("is not UTF-8");
  }
  return part;
}

}  // namespace

OfficeKind OfficeKindOf(v1::TextFormat format) {
  return format == v1::TEXT_FORMAT_DOCX  ? OfficeKind::kDocx
         : format == v1::TEXT_FORMAT_ODT ? OfficeKind::kOdt
                                         : OfficeKind::kNone;
}

absl::StatusOr<std::vector<OfficePart>> ReadOfficeFile(absl::string_view file, OfficeKind kind) {
  Source source;
  BW_ASSIGN_OR_RETURN(const Archive archive, Open(file, ZIP_RDONLY, source));
  const zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  if (count > kMaxOfficeEntries) {
    return Invalid("has ", count, " entries; at most ", kMaxOfficeEntries, " are allowed");
  }
  std::vector<OfficePart> parts;
  std::set<std::string> names;
  size_t left = kMaxOfficeXmlBytes;
  for (zip_uint64_t i = 0; i < static_cast<zip_uint64_t>(count); ++i) {
    const char* const raw_name = zip_get_name(archive.get(), i, ZIP_FL_ENC_RAW);
    std::string name = raw_name == nullptr ? "" : raw_name;
    if (name.empty() || !names.insert(name).second) {
      return Invalid("entry ", i, " has ", name.empty() ? "no name" : "the name of another one");
    }
    if (!HoldsText(name, kind)) {
      continue;
    }
    absl::StatusOr<OfficePart> part = ReadPart(archive.get(), i, name, left);
    if (!part.ok()) {
      return Annotate(part.status(), name);
    }
    left -= part->xml.size();
    parts.push_back(*std::move(part));
  }
  const bool is_odt = kind == OfficeKind::kOdt;
  const char* const main = is_odt ? "content.xml" : "word/document.xml";
  if (!names.contains(main)) {
    return Invalid("has no ", main, "; is it ", is_odt ? "an .odt" : "a .docx", " file?");
  }
  return parts;
}

absl::StatusOr<std::string> WriteOfficeFile(absl::string_view file,
                                            absl::Span<const OfficePart> parts) {
  Source source;
  BW_ASSIGN_OR_RETURN(Archive archive, Open(file, 0, source));
  const auto failed = [&] {
    return absl::InternalError(absl::StrCat("cannot pack the file: ", zip_strerror(archive.get())));
  };
  for (const OfficePart& part : parts) {
    const zip_int64_t found = zip_name_locate(archive.get(), part.name.c_str(), ZIP_FL_ENC_RAW);
    zip_stat_t facts;
    zip_stat_init(&facts);
    if (found < 0 ||
        zip_stat_index(archive.get(), static_cast<zip_uint64_t>(found), 0, &facts) != 0) {
      return failed();
    }
    const auto index = static_cast<zip_uint64_t>(found);
    zip_source_t* const content =
        zip_source_buffer(archive.get(), part.xml.data(), part.xml.size(), 0);
    if (content == nullptr || zip_file_replace(archive.get(), index, content, 0) != 0) {
      zip_source_free(content);
      return failed();
    }
    // The time stays, so that equal parts make equal files.
    if (zip_set_file_compression(archive.get(), index, facts.comp_method, 0) != 0 ||
        zip_file_set_mtime(archive.get(), index, facts.mtime, 0) != 0) {
      return failed();
    }
  }
  if (zip_close(archive.get()) != 0) {
    return failed();
  }
  static_cast<void>(archive.release());  // zip_close has freed it
  zip_stat_t facts;
  zip_stat_init(&facts);
  if (zip_source_stat(source.get(), &facts) != 0 || zip_source_open(source.get()) != 0) {
    return absl::InternalError("cannot read the packed file");
  }
  std::string packed(facts.size, '\0');
  const zip_int64_t got = zip_source_read(source.get(), packed.data(), packed.size());
  zip_source_close(source.get());
  if (got != static_cast<zip_int64_t>(packed.size())) {
    return absl::InternalError("cannot read the packed file");
  }
  return packed;
}

}  // namespace beamwright::translate
