// The two halves of this file: the archive (ReadOfficeFile, WriteOfficeFile), and one of its XML
// files as a Document (PartReader).
#include "server/translate/office_files.h"

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
#include "server/translate/office_paragraph.h"
#include "server/translate/unit_builder.h"

namespace beamwright::translate {

// Reads and writes the texts of .docx and .odt files, which are zip archives of XML files, with
// libzip in memory.
//
// ReadOfficeFile returns the XML files with text: the document, headers, footers and notes
// (HoldsText). It trusts no size of the archive's directory: entries are unpacked in pieces, and no
// more than kMaxOfficeXmlBytes in all, since a small archive can unpack to any size.
// WriteOfficeFile replaces these files and keeps everything else, times included, so that equal
// input gives equal output.

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

// Bounds: the number of entries, before any is looked at; the bytes of all texts together, each
// entry as far as is left of them. Names are distinct, since a reader and a writer could otherwise
// mean different entries.
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

// 1. Each part replaces its entry, with the entry's kind of compression and time.
// 2. Closing the archive writes it into `source`, which outlives it.
// 3. The bytes are read from `source`.
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

// A part is read once from front to back (PartReader). What is outside of paragraphs stays as it
// is. A paragraph becomes a small tree (OfficeNode), and the tree the events of a unit
// (office_paragraph.h). Paragraphs within it, of a text box or a note, are inserts of the document.

namespace {

// Elements of a paragraph that are nested deeper are refused.
constexpr int kDeepest = 200;

class PartReader {
 public:
  // read: ReadWordParagraph or the like; paragraphs: names of its elements.
  PartReader(absl::string_view xml,
             bool (*read)(const OfficeNode&, const ExtractNode&, OfficeParagraph&),
             std::vector<absl::string_view> paragraphs)
      : xml_(xml),
        read_(read),
        paragraphs_(std::move(paragraphs)),
        may_insert_(!absl::StrContains(xml, kInsertBegin)) {
    document_.escape = true;
  }

  absl::StatusOr<Document> Run() {
    size_t kept = 0;  // from here on nothing is in the document yet
    while (at_ < xml_.size()) {
      const size_t begin = at_;
      OfficeNode node;
      BW_RETURN_IF_ERROR(TakeNode(node));
      if (!IsParagraph(node.name) || is_closing_ || is_empty_) {
        continue;
      }
      BW_RETURN_IF_ERROR(TakeContent(1, node));
      Keep(xml_.substr(kept, begin - kept), document_.parts);
      AddParagraph(node, document_.parts);
      BW_RETURN_IF_ERROR(status_);
      kept = at_;
    }
    Keep(xml_.substr(kept), document_.parts);
    return std::move(document_);
  }

 private:
  using Parts = std::vector<Document::Part>;

  bool IsParagraph(const std::string& name) const {
    return std::find(paragraphs_.begin(), paragraphs_.end(), name) != paragraphs_.end();
  }

  // The paragraph, as a unit if it has letters. Sets status_.
  void AddParagraph(const OfficeNode& node, Parts& parts) {
    const ExtractNode extract = [this](const OfficeNode& child) { return Extract(child); };
    OfficeParagraph paragraph;
    const size_t start = left_;  // paragraphs within this one take their parts of it
    paragraph.left = start;
    if (!read_(node, extract, paragraph)) {
      Keep(absl::StrCat(node.open, ExtractChildren(node), node.close), parts);
      return;
    }
    if (paragraph.is_too_large) {
      status_.Update(Invalid("its paragraphs have formats of more than ", kMostEventBytes,
                             " bytes when each stretch has its own"));
      return;
    }
    left_ -= std::min(left_, start - paragraph.left);
    Keep(paragraph.before, parts);
    absl::StatusOr<MarkedText> unit = BuildUnit(std::move(paragraph.events), true);
    status_.Update(unit.status());
    if (!status_.ok()) {
      return;
    }
    Document::Part part;
    part.unit = static_cast<int>(document_.units.size());
    parts.push_back(std::move(part));
    document_.units.push_back(*std::move(unit));
    Keep(paragraph.behind, parts);
  }

  std::string Extract(const OfficeNode& node) {
    if (!may_insert_ || node.children.empty()) {
      return std::string(node.bytes);
    }
    if (!IsParagraph(node.name)) {
      return absl::StrCat(node.open, ExtractChildren(node), node.close);
    }
    Parts parts;
    AddParagraph(node, parts);
    document_.inserts.push_back(std::move(parts));
    return InsertMark(document_.inserts.size() - 1);
  }

  std::string ExtractChildren(const OfficeNode& node) {
    std::string bytes;
    for (const OfficeNode& child : node.children) {
      bytes += Extract(child);
    }
    return bytes;
  }

  // A text, a tag or the like; of an element its opening tag alone.
  absl::Status TakeNode(OfficeNode& node) {
    const absl::string_view rest = xml_.substr(at_);
    size_t size = 0;
    is_closing_ = is_empty_ = false;
    if (rest[0] != '<') {
      size = std::min(rest.find('<'), rest.size());
      node.is_text = true;
    } else if (absl::StartsWith(rest, "<!--") || absl::StartsWith(rest, "<?") ||
               absl::StartsWith(rest, "<![CDATA[")) {
      const absl::string_view end = rest[1] == '?' ? "?>" : rest[2] == '-' ? "-->" : "]]>";
      size = rest.find(end, 2);
      size = size == absl::string_view::npos ? rest.size() : size + end.size();
    } else {
      Tag tag = ReadTag(rest, false);
      if (tag.size == 0) {
        return Invalid("byte ", at_, ": < begins no tag");  // a document type as well
      }
      size = tag.size;
      node.name = std::move(tag.name);
      node.open = rest.substr(0, size);
      is_closing_ = tag.is_closing;
      is_empty_ = tag.is_empty;
    }
    node.bytes = rest.substr(0, size);
    at_ += size;
    return absl::OkStatus();
  }

  // The children and the closing tag of an element whose opening tag was read.
  //
  // Recursive, hence the limit of kDeepest levels.
  absl::Status TakeContent(int depth, OfficeNode& node) {
    const size_t begin = at_ - node.open.size();
    if (depth > kDeepest) {
      return Invalid("byte ", at_, ": tags are nested deeper than ", kDeepest);
    }
    while (at_ < xml_.size()) {
      OfficeNode child;
      BW_RETURN_IF_ERROR(TakeNode(child));
      if (is_closing_) {
        if (child.name != node.name) {
          return Invalid("byte ", at_ - child.bytes.size(), ": </", Printable(child.name),
                         "> closes <", Printable(node.name), ">");
        }
        node.close = child.bytes;
        node.bytes = xml_.substr(begin, at_ - begin);
        return absl::OkStatus();
      }
      if (!child.name.empty() && !is_empty_) {
        BW_RETURN_IF_ERROR(TakeContent(depth + 1, child));
      }
      node.children.push_back(std::move(child));
    }
    return Invalid("the element <", Printable(node.name), "> is not closed");
  }

  static void Keep(absl::string_view bytes, Parts& parts) {
    if (parts.empty() || parts.back().unit >= 0) {
      parts.emplace_back();
    }
    absl::StrAppend(&parts.back().kept, bytes);
  }

  const absl::string_view xml_;
  bool (*const read_)(const OfficeNode&, const ExtractNode&, OfficeParagraph&);
  const std::vector<absl::string_view> paragraphs_;
  const bool may_insert_;  // no XML has the mark's characters
  absl::Status status_;
  size_t at_ = 0;
  bool is_closing_ = false;  // the tag that was read last
  bool is_empty_ = false;
  size_t left_ = kMostEventBytes;
  Document document_;
};

}  // namespace

bool HasLetters(absl::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80 ||
        absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      return true;
    }
  }
  return false;
}

std::string DecodeText(absl::string_view text) {
  std::string decoded;
  std::string character;
  while (!text.empty()) {
    const size_t size = text[0] == '&' ? ReadEntity(text, character) : 0;
    decoded.append(size > 0 ? character : std::string(1, text[0]));
    text.remove_prefix(size > 0 ? size : 1);
  }
  return decoded;
}

bool BeginsRange(const OfficeNode& node) {
  return absl::EndsWith(node.name, "Start") || absl::EndsWith(node.name, "-start");
}

bool EndsRange(const OfficeNode& node) {
  return absl::EndsWith(node.name, "End") || absl::EndsWith(node.name, "-end");
}

absl::StatusOr<Document> ParseWordPart(absl::string_view xml) {
  return PartReader(xml, &ReadWordParagraph, {"w:p"}).Run();
}

absl::StatusOr<Document> ParseOpenDocumentPart(absl::string_view xml) {
  return PartReader(xml, &ReadOpenDocumentParagraph, {"text:p", "text:h"}).Run();
}

}  // namespace beamwright::translate
