// Bodies of requests to translate, as JSON and as both kinds of forms, and what is translated of
// their texts: no byte outside of the units may get lost, and no tag. The first byte chooses how
// the rest is read.
#include <cstdlib>
#include <string>
#include <vector>

#include "ops/base/utf8.h"
#include "server/http/translate_json.h"
#include "server/translate/markup.h"
#include "server/translate/office_files.h"

namespace {

using beamwright::v1::TranslateRequest;

// The bytes of an office file, and a part of one.
void ReadOffice(const std::string& bytes) {
  using beamwright::translate::OfficeKind;
  for (const OfficeKind kind : {OfficeKind::kDocx, OfficeKind::kOdt}) {
    const auto parts = beamwright::translate::ReadOfficeFile(bytes, kind);
    if (parts.ok()) {
      beamwright::translate::WriteOfficeFile(bytes, *parts).IgnoreError();
    }
    auto document = kind == OfficeKind::kDocx ? beamwright::translate::ParseWordPart(bytes)
                                              : beamwright::translate::ParseOpenDocumentPart(bytes);
    if (document.ok()) {
      beamwright::translate::WriteDocument(*document, document->units);
    }
  }
}

// Texts as they are, and with all words of a unit from its end.
void Translate(const TranslateRequest& request) {
  for (const std::string& text : request.texts()) {
    auto document = beamwright::translate::ParseDocument(text, request);
    if (!document.ok()) {
      continue;
    }
    const std::string same = beamwright::translate::WriteDocument(*document, document->units);
    if (!beamwright::CheckUtf8(same).ok() ||
        (request.format() == beamwright::v1::TEXT_FORMAT_PLAIN && same != text)) {
      std::abort();
    }
    for (auto& unit : document->units) {
      std::vector<beamwright::translate::Word> words;
      for (size_t i = 0; i + 1 < unit.text.size(); i += 2) {
        words.push_back({i, i + 1, unit.text.size() - i});
      }
      const size_t count = unit.elements.size();
      unit = beamwright::translate::CarryOver(unit, std::string(unit.text.size(), 'x'), words);
      if (unit.elements.size() != count) {
        std::abort();
      }
    }
    beamwright::translate::WriteDocument(*document, document->units);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string body(reinterpret_cast<const char*>(data + 1), size - 1);
  constexpr const char* kTypes[] = {"application/json", "application/x-www-form-urlencoded",
                                    "multipart/form-data; boundary=x"};
  if (data[0] < 9) {  // a text, or a part of an office file, in one of the formats
    TranslateRequest request;
    request.set_format(static_cast<beamwright::v1::TextFormat>(data[0]));
    request.add_ignored_tags("k");
    request.add_splitting_tags("s");
    if (beamwright::CheckUtf8(body).ok()) {
      *request.add_texts() = body;
    }
    Translate(request);
    if (data[0] == 7) {
      ReadOffice(body);
    }
    return 0;
  }
  const auto members = beamwright::http::ParseMembers(kTypes[data[0] % 3], body);
  if (!members.ok()) {
    return 0;
  }
  if (const auto libre = beamwright::http::ReadTranslateBody(*members); libre.ok()) {
    Translate(libre->request);
  }
  if (const auto file = beamwright::http::ReadFileBody(*members); file.ok()) {
    Translate(file->request);
  }
  if (const auto deepl = beamwright::http::ReadDeepLBody(*members); deepl.ok()) {
    Translate(*deepl);
  }
  return 0;
}
