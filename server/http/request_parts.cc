#include "server/http/request_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ops/base/status.h"

namespace beamwright::http {

ModelPath SplitModelPath(const std::vector<std::string>& pieces) {
  ModelPath path;
  path.model = pieces[2];
  size_t next = 3;
  if (pieces.size() > 4 && pieces[3] == "versions") {
    path.version = pieces[4];
    next = 5;
  }
  path.rest.assign(pieces.begin() + static_cast<std::ptrdiff_t>(next), pieces.end());
  return path;
}

serving::Method MethodOf(const std::string& path) {
  constexpr std::pair<const char*, serving::Method> kVerbs[] = {
      {":decode", serving::Method::kHttpDecode},
      {":streamDecode", serving::Method::kHttpStreamDecode},
      {":score", serving::Method::kHttpScore},
      {":align", serving::Method::kHttpAlign}};
  if (absl::StartsWith(path, "/v2/models/") && absl::EndsWith(path, "/infer")) {
    return serving::Method::kHttpInfer;
  }
  if (path == kTranscriptions) {
    return serving::Method::kHttpTranscribe;
  }
  if (path == kCompletions) {
    return serving::Method::kHttpDecode;
  }
  if (path == "/translate" || path == "/translate_file" || path == "/v2/translate") {
    return serving::Method::kHttpTranslate;
  }
  for (const auto& [verb, method] : kVerbs) {
    if (absl::StartsWith(path, "/v1/models/") && absl::EndsWith(path, verb)) {
      return method;
    }
  }
  return serving::Method::kHttpOther;
}

bool Unescape(absl::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const absl::string_view digits = text.substr(i + 1, 2);
    if (digits.size() < 2 || digits == "00" ||
        !std::all_of(digits.begin(), digits.end(),
                     [](unsigned char c) { return absl::ascii_isxdigit(c); })) {
      return false;
    }
    out += absl::HexStringToBytes(digits);
    i += 2;
  }
  return true;
}

// Parses bodies of multipart/form-data (RFC 7578), by which browsers and curl send files:
//
//   --BOUNDARY
//   Content-Disposition: form-data; name="file"; filename="a.wav"
//
//   the content
//   --BOUNDARY--
//
// ParseForm splits the body at the boundary that the Content-Type header names (BoundaryOf) and
// reads the head of each part (PartOf). Contents are views into the body. The parser is strict (two
// names, a missing end, bytes after the last boundary are errors), since lenient parsers that
// differ let a request mean different things to a proxy and to the server; numbers and sizes of
// parts' heads are bounded.

namespace {

constexpr absl::string_view kPartLineEnd = "\r\n";

absl::Status Malformed(absl::string_view why) {
  return Invalid("the multipart/form-data body is malformed: ", why);
}

// Takes a parameter "; name=value" or "; name="value"" from the front. False: no parameter follows.
absl::StatusOr<bool> TakeParameter(absl::string_view& text, std::string& name, std::string& value) {
  text = absl::StripLeadingAsciiWhitespace(text);
  if (text.empty()) {
    return false;
  }
  if (!absl::ConsumePrefix(&text, ";")) {
    return Malformed("a parameter does not begin with ';'");
  }
  text = absl::StripLeadingAsciiWhitespace(text);
  const size_t equals = text.find('=');
  if (equals == absl::string_view::npos) {
    return Malformed("a parameter has no value");
  }
  name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text.substr(0, equals)));
  text.remove_prefix(equals + 1);
  value.clear();
  if (!absl::ConsumePrefix(&text, "\"")) {
    const size_t end = text.find(';');
    value = std::string(absl::StripAsciiWhitespace(text.substr(0, end)));
    text.remove_prefix(std::min(end, text.size()));
    return true;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
    }
    value += text[i];
  }
  return Malformed("a quoted value does not end");
}

struct Parameter {
  std::string name;
  std::string value;
};

// All parameters of a header's value, behind its first word.
absl::StatusOr<std::vector<Parameter>> ParametersOf(absl::string_view text) {
  std::vector<Parameter> parameters;
  for (;;) {
    Parameter next;
    BW_ASSIGN_OR_RETURN(const bool is_taken, TakeParameter(text, next.name, next.value));
    if (!is_taken) {
      return parameters;
    }
    parameters.push_back(std::move(next));
  }
}

absl::StatusOr<std::string> BoundaryOf(absl::string_view content_type) {
  const size_t end = std::min(content_type.find(';'), content_type.size());
  if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(content_type.substr(0, end)),
                              "multipart/form-data")) {
    return Invalid("the content type is '", content_type.substr(0, 200),
                   "'; a file is sent as multipart/form-data");
  }
  BW_ASSIGN_OR_RETURN(const std::vector<Parameter> parameters,
                      ParametersOf(content_type.substr(end)));
  std::string boundary;
  for (const Parameter& parameter : parameters) {
    if (parameter.name == "boundary" && !boundary.empty()) {
      return Malformed("it has two boundaries");
    }
    if (parameter.name == "boundary") {
      boundary = parameter.value;
    }
  }
  constexpr size_t kLongest = 70;
  constexpr absl::string_view kMarks = "'()+_,-./:=? ";
  bool is_good = !boundary.empty() && boundary.size() <= kLongest && boundary.back() != ' ';
  for (const char c : boundary) {
    is_good = is_good &&
              (absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains(kMarks, c));
  }
  return is_good ? absl::StatusOr<std::string>(boundary)
                 : Malformed("its boundary is not 1 to 70 characters of those that may be in one");
}

// The name and file name in the head of a part.
absl::StatusOr<FormPart> PartOf(absl::string_view head) {
  FormPart found;
  bool has_name = false;
  for (const absl::string_view line : absl::StrSplit(head, kPartLineEnd, absl::SkipEmpty())) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) {
      return Malformed("a line of a part's head has no ':'");
    }
    const absl::string_view header = line.substr(0, colon);
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (absl::EqualsIgnoreCase(header, "Content-Transfer-Encoding") &&
        !absl::EqualsIgnoreCase(value, "binary") && !absl::EqualsIgnoreCase(value, "8bit") &&
        !absl::EqualsIgnoreCase(value, "7bit")) {
      return Malformed("a part has a transfer encoding");
    }
    if (!absl::EqualsIgnoreCase(header, "Content-Disposition")) {
      continue;
    }
    const size_t end = std::min(value.find(';'), value.size());
    if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(value.substr(0, end)), "form-data")) {
      return Malformed("a part is not of form-data");
    }
    BW_ASSIGN_OR_RETURN(const std::vector<Parameter> parameters, ParametersOf(value.substr(end)));
    for (const Parameter& parameter : parameters) {
      if (parameter.name == "name" && std::exchange(has_name, true)) {
        return Malformed("a part has two names");
      }
      if (parameter.name == "name") {
        found.name = parameter.value;
      } else if (parameter.name == "filename") {
        found.filename = parameter.value;
      }
    }
  }
  return has_name ? absl::StatusOr<FormPart>(found) : Malformed("a part has no name");
}

}  // namespace

absl::StatusOr<std::vector<FormPart>> ParseForm(absl::string_view content_type,
                                                absl::string_view body) {
  BW_ASSIGN_OR_RETURN(const std::string boundary, BoundaryOf(content_type));
  const std::string mark = absl::StrCat("--", boundary);
  const std::string delimiter = absl::StrCat(kPartLineEnd, mark);
  if (!absl::ConsumePrefix(&body, mark)) {
    return Malformed("it does not begin with its boundary");
  }
  std::vector<FormPart> parts;
  while (!absl::ConsumePrefix(&body, "--")) {
    if (!absl::ConsumePrefix(&body, kPartLineEnd)) {
      return Malformed("a boundary is not followed by a line's end");
    }
    if (parts.size() == kMaxFormParts) {
      return Malformed(absl::StrCat("it has more than ", kMaxFormParts, " parts"));
    }
    const size_t head = body.substr(0, kMaxFormHeadBytes).find("\r\n\r\n");
    if (head == absl::string_view::npos) {
      return Malformed(
          absl::StrCat("a part's head does not end within ", kMaxFormHeadBytes, " bytes"));
    }
    BW_ASSIGN_OR_RETURN(FormPart part, PartOf(body.substr(0, head)));
    body.remove_prefix(head + 4);
    const size_t end = body.find(delimiter);
    if (end == absl::string_view::npos) {
      return Malformed("its last boundary is missing");
    }
    part.content = body.substr(0, end);
    body.remove_prefix(end + delimiter.size());
    parts.push_back(std::move(part));
  }
  if (!body.empty() && body != kPartLineEnd) {
    return Malformed("bytes follow its last boundary");
  }
  return parts;
}

}  // namespace beamwright::http
