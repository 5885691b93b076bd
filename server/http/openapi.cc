// The OpenAPI document, written member by member into a JsonWriter (WriteDocument):
//
// 1. WritePaths: one path for each call of /v1, with and without a version. Request and response
//    are references to schemas, and each reference is remembered (Schemas::Reference).
// 2. WriteForms: calls of other APIs, whose bodies no proto describes; their members are listed
//    here.
// 3. Schemas::WriteAll: a schema for each message that was referred to, and for what these refer
//    to, until none is left. So the document has the messages in use and no others.
//
// A message becomes a schema by protobuf's descriptors alone: names and types by WriteType, as
// protobuf's JSON form has them, and range, default, unit and text by the field's rule
// (rule.proto). A new option of decode.proto therefore appears in the document and on the page
// without a change here. Keys with x- are what the page reads.
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "beamwright/v1/decode.pb.h"
#include "beamwright/v1/model.pb.h"
#include "beamwright/v1/rule.pb.h"
#include "engine/bundle/rules.h"
#include "google/protobuf/any.pb.h"
#include "ops/base/json_writer.h"
#include "server/http/routes.h"

namespace beamwright::http {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

constexpr char kSchemas[] = "#/components/schemas/";
constexpr char kError[] = "beamwright.http.Error";

// A call of /v1; no request: GET.
struct Operation {
  const char* name;
  const char* suffix;  // behind /v1/models
  const char* summary;
  const Descriptor* request;
  const Descriptor* response;
};

// Writes schemas of messages and remembers those that are still to be written.
class Schemas {
 public:
  explicit Schemas(JsonWriter& json) : json_(json) {}

  void Reference(const std::string& name) {
    json_.Key("$ref").String(absl::StrCat(kSchemas, name));
  }
  void Reference(const Descriptor* type) {
    Reference(type->full_name());
    wanted_.push_back(type);
  }

  // The schemas of all messages that were referred to, and of messages that these refer to.
  void WriteAll() {
    while (!wanted_.empty()) {
      const Descriptor* type = wanted_.back();
      wanted_.pop_back();
      if (written_.insert(type).second) {
        json_.Key(type->full_name());
        WriteMessage(type);
      }
    }
  }

 private:
  void WriteMessage(const Descriptor* type) {
    json_.BeginObject();
    json_.Key("type").String("object");
    const bool is_any = type == google::protobuf::Any::descriptor();
    json_.Key("additionalProperties").Bool(is_any);
    json_.Key("properties").BeginObject();
    if (is_any) {
      json_.Key("@type").BeginObject().Key("type").String("string").EndObject();
    }
    for (int i = 0; i < type->field_count() && !is_any; ++i) {
      json_.Key(type->field(i)->name()).BeginObject();
      WriteField(*type->field(i));
      json_.EndObject();
    }
    json_.EndObject().EndObject();
  }

  void WriteField(const FieldDescriptor& field) {
    const v1::FieldRule& rule = field.options().GetExtension(v1::rule);
    if (field.is_map()) {
      json_.Key("type").String("object");
      json_.Key("additionalProperties").BeginObject();
      WriteType(*field.message_type()->map_value());
      json_.EndObject();
      WriteMost("maxProperties", rule);
    } else if (field.is_repeated()) {
      json_.Key("type").String("array");
      json_.Key("items").BeginObject();
      WriteType(field);
      json_.EndObject();
      WriteMost("maxItems", rule);
    } else {
      WriteType(field);
      // The rule of a bytes field counts bytes, not the characters of base64.
      if (field.type() == FieldDescriptor::TYPE_STRING) {
        WriteMost("maxLength", rule);
      }
    }
    WriteRule(field, rule);
  }

  void WriteMost(const char* keyword, const v1::FieldRule& rule) {
    if (rule.max_items() > 0) {
      json_.Key(keyword).Int(rule.max_items());
    }
  }

  void WriteRule(const FieldDescriptor& field, const v1::FieldRule& rule) {
    if (rule.has_minimum()) {
      json_.Key("minimum").Double(rule.minimum());
    }
    if (rule.has_maximum()) {
      json_.Key("maximum").Double(rule.maximum());
    }
    if (!rule.default_value().empty()) {
      json_.Key("default");
      WriteDefault(field, rule.default_value());
    }
    for (const auto& [key, text] : {std::pair("description", &rule.text()),
                                    {"x-group", &rule.group()},
                                    {"x-unit", &rule.unit()}}) {
      if (!text->empty()) {
        json_.Key(key).String(*text);
      }
    }
    if (!rule.searches().empty()) {
      json_.Key("x-searches").BeginArray();
      for (const int search : rule.searches()) {
        json_.String(v1::Search_Name(search));
      }
      json_.EndArray();
    }
    if (field.real_containing_oneof() != nullptr) {
      json_.Key("x-oneof").String(field.real_containing_oneof()->name());
    }
  }

  void WriteDefault(const FieldDescriptor& field, const std::string& text) {
    double number = 0;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      json_.String(bundle::FindEnumValue(field.enum_type(), text)->name());
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      json_.Bool(text == "true");
    } else if (absl::SimpleAtod(text, &number)) {
      json_.Double(number);
    } else {
      json_.String(text);
    }
  }

  // The type of one element, as in protobuf's JSON form.
  void WriteType(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        json_.Key("type").String("boolean");
        return;
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_UINT32:
        json_.Key("type").String("integer");
        json_.Key("format").String(field.cpp_type_name());
        return;
      // A string: a number of JavaScript does not hold 64 bits.
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_UINT64:
        json_.Key("type").String("string");
        json_.Key("format").String(field.cpp_type_name());
        return;
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
        json_.Key("type").String("number");
        json_.Key("format").String(field.cpp_type_name());
        return;
      case FieldDescriptor::CPPTYPE_ENUM:
        WriteEnum(field.enum_type());
        return;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Reference(field.message_type());
        return;
      case FieldDescriptor::CPPTYPE_STRING:
        json_.Key("type").String("string");
        if (field.type() == FieldDescriptor::TYPE_BYTES) {
          json_.Key("contentEncoding").String("base64");
        }
        return;
    }
  }

  void WriteEnum(const EnumDescriptor* type) {
    json_.Key("type").String("string");
    json_.Key("enum").BeginArray();
    for (int i = 0; i < type->value_count(); ++i) {
      json_.String(type->value(i)->name());
    }
    json_.EndArray();
  }

  JsonWriter& json_;
  std::vector<const Descriptor*> wanted_;
  std::set<const Descriptor*> written_;
};

void WriteContent(JsonWriter& json, Schemas& schemas, const char* media, const Descriptor* type) {
  json.Key("content").BeginObject().Key(media).BeginObject().Key("schema").BeginObject();
  if (type == nullptr) {
    schemas.Reference(kError);
  } else {
    schemas.Reference(type);
  }
  json.EndObject().EndObject().EndObject();
}

void WriteParameters(JsonWriter& json, const std::string& path) {
  json.Key("parameters").BeginArray();
  for (const char* name : {"model", "version"}) {
    if (path.find(absl::StrCat("{", name, "}")) != std::string::npos) {
      json.BeginObject();
      json.Key("name").String(name);
      json.Key("in").String("path");
      json.Key("required").Bool(true);
      json.Key("schema").BeginObject().Key("type").String("string").EndObject();
      json.EndObject();
    }
  }
  json.EndArray();
}

void WriteOperation(JsonWriter& json, Schemas& schemas, const std::string& path,
                    const std::string& id, const Operation& operation) {
  json.Key(path).BeginObject();
  json.Key(operation.request == nullptr ? "get" : "post").BeginObject();
  json.Key("operationId").String(id);
  json.Key("summary").String(operation.summary);
  WriteParameters(json, path);
  if (operation.request != nullptr) {
    json.Key("requestBody").BeginObject().Key("required").Bool(true);
    WriteContent(json, schemas, "application/json", operation.request);
    json.EndObject();
  }
  const bool streams = operation.response == v1::StreamDecodeResponse::descriptor();
  json.Key("responses").BeginObject();
  json.Key("200")
      .BeginObject()
      .Key("description")
      .String(streams ? "Lines, each with one of these messages." : "The answer.");
  WriteContent(json, schemas, streams ? "application/x-ndjson" : "application/json",
               operation.response);
  json.EndObject();
  json.Key("default")
      .BeginObject()
      .Key("description")
      .String("What is wrong: code, message, and details that programs read.");
  WriteContent(json, schemas, "application/json", nullptr);
  json.EndObject().EndObject().EndObject().EndObject();
}

void WritePaths(JsonWriter& json, Schemas& schemas) {
  const Operation operations[] = {
      {"Decode", ":decode", "Decodes sources into n-best lists.", v1::DecodeRequest::descriptor(),
       v1::DecodeResponse::descriptor()},
      {"StreamDecode", ":streamDecode", "Decodes a source and reports stable tokens as they come.",
       v1::StreamDecodeRequest::descriptor(), v1::StreamDecodeResponse::descriptor()},
      {"Score", ":score", "Scores given targets for their sources.", v1::ScoreRequest::descriptor(),
       v1::ScoreResponse::descriptor()},
      {"Align", ":align", "Aligns given targets with their sources.",
       v1::AlignRequest::descriptor(), v1::AlignResponse::descriptor()},
      {"DescribeModel", "", "Describes a model.", nullptr, v1::ModelDescription::descriptor()}};
  WriteOperation(
      json, schemas, "/v1/models", "ListModels",
      {"", "", "Lists the models that are served.", nullptr, v1::ListModelsResponse::descriptor()});
  for (const Operation& operation : operations) {
    WriteOperation(json, schemas, absl::StrCat("/v1/models/{model}", operation.suffix),
                   operation.name, operation);
    WriteOperation(json, schemas,
                   absl::StrCat("/v1/models/{model}/versions/{version}", operation.suffix),
                   absl::StrCat(operation.name, "OfVersion"), operation);
  }
}

// A member of a body that no proto describes.
struct Member {
  const char* name;
  const char* type;  // of JSON; "file": bytes of a form's file
  bool is_required;
  const char* description;
};

// A call whose body is a form or JSON.
struct FormOperation {
  const char* path;
  const char* name;
  const char* summary;
  std::vector<const char*> media;
  std::vector<Member> members;
  const char* answer;
};

void WriteForm(JsonWriter& json, const FormOperation& operation) {
  json.Key(operation.path).BeginObject();
  json.Key(operation.members.empty() ? "get" : "post").BeginObject();
  json.Key("operationId").String(operation.name);
  json.Key("summary").String(operation.summary);
  if (!operation.members.empty()) {
    json.Key("requestBody").BeginObject().Key("required").Bool(true);
    json.Key("content").BeginObject();
    for (const char* media : operation.media) {
      json.Key(media).BeginObject().Key("schema").BeginObject();
      json.Key("type").String("object");
      json.Key("required").BeginArray();
      for (const Member& member : operation.members) {
        if (member.is_required) {
          json.String(member.name);
        }
      }
      json.EndArray();
      json.Key("properties").BeginObject();
      for (const Member& member : operation.members) {
        const bool is_file = member.type == absl::string_view("file");
        json.Key(member.name).BeginObject();
        json.Key("type").String(is_file ? "string" : member.type);
        if (is_file) {
          json.Key("contentMediaType").String("application/octet-stream");
        }
        json.Key("description").String(member.description).EndObject();
      }
      json.EndObject().EndObject().EndObject();
    }
    json.EndObject().EndObject();
  }
  json.Key("responses").BeginObject().Key("200").BeginObject();
  json.Key("description").String(operation.answer);
  json.EndObject().EndObject().EndObject().EndObject();
}

// The paths that have bodies of other APIs.
void WriteForms(JsonWriter& json) {
  constexpr char kJsonType[] = "application/json";
  constexpr char kUrlForm[] = "application/x-www-form-urlencoded";
  constexpr char kFileForm[] = "multipart/form-data";
  const Member source = {"source", "string", true,
                         "Language of the text as a BCP 47 tag, or auto."};
  const Member target = {"target", "string", true, "Language to translate to."};
  const Member key = {"api_key", "string", false, "A token, where the header has none."};
  const std::vector<FormOperation> operations = {
      {"/translate",
       "Translate",
       "Translates texts, as LibreTranslate does.",
       {kJsonType, kUrlForm, kFileForm},
       {{"q", "string", true, "The text; in JSON also a list of texts."},
        source,
        target,
        {"format", "string", false, "text or html."},
        {"alternatives", "integer", false, "Further translations, 0 to 16."},
        {"glossary", "object", false, "In JSON: terms and their translations."},
        key},
       "translatedText, alternatives and detectedLanguage."},
      {"/translate_file",
       "TranslateFile",
       "Translates a file by the ending of its name: .txt, .html, .xml, .srt, .vtt, .po.",
       {kFileForm},
       {{"file", "file", true, "The file."}, source, target, key},
       "translatedFileUrl, a data URL with the file."},
      {"/detect",
       "DetectLanguage",
       "Finds out the language of a text among those that are served.",
       {kJsonType, kUrlForm, kFileForm},
       {{"q", "string", true, "The text."}, key},
       "A list of confidence, in percent, and language."},
      {"/languages",
       "ListLanguages",
       "Lists the languages and their targets.",
       {},
       {},
       "A list of code, name and targets."},
      {"/v1/audio/transcriptions",
       "Transcribe",
       "Recognises a recording, as OpenAI's API does.",
       {kFileForm},
       {{"file", "file", true, "The recording."},
        {"model", "string", true, "The model's name."},
        {"language", "string", false, "The language of the sound, where a model knows several."},
        {"languages[]", "string", false, "The same, if there is one."},
        {"prompt", "string", false, "Phrases that the text should rather have."},
        {"keywords[]", "string", false, "Such a phrase."},
        {"response_format", "string", false, "json, text, srt, vtt or verbose_json."},
        {"include[]", "string", false, "logprobs: the tokens' log-probabilities, in json."},
        {"chunking_strategy", "string", false, "auto, or a server_vad object as JSON."},
        {"temperature", "number", false, "0 to 1; not used."},
        {"timestamp_granularities[]", "string", false, "word or segment."},
        {"stream", "boolean", false, "Whether the text comes as server-sent events."},
        {"options", "string", false, "DecodeOptions as JSON."}},
       "The text in the format that was asked for."}};
  for (const FormOperation& operation : operations) {
    WriteForm(json, operation);
  }
}

void WriteError(JsonWriter& json, Schemas& schemas) {
  json.Key(kError).BeginObject();
  json.Key("type").String("object");
  json.Key("properties").BeginObject().Key("error").BeginObject();
  json.Key("type").String("object");
  json.Key("properties").BeginObject();
  json.Key("code").BeginObject().Key("type").String("integer").EndObject();
  json.Key("status").BeginObject().Key("type").String("string").EndObject();
  json.Key("message").BeginObject().Key("type").String("string").EndObject();
  json.Key("details").BeginObject().Key("type").String("array").Key("items").BeginObject();
  schemas.Reference(google::protobuf::Any::descriptor());
  json.EndObject().EndObject().EndObject().EndObject().EndObject().EndObject();
}

std::string WriteDocument() {
  JsonWriter json;
  Schemas schemas(json);
  json.BeginObject();
  json.Key("openapi").String("3.1.0");
  json.Key("info").BeginObject();
  json.Key("title").String("Beamwright");
  json.Key("version").String(BEAMWRIGHT_VERSION);
  json.EndObject();
  json.Key("security").BeginArray().BeginObject().EndObject();
  json.BeginObject().Key("bearer").BeginArray().EndArray().EndObject().EndArray();
  json.Key("paths").BeginObject();
  WritePaths(json, schemas);
  WriteForms(json);
  json.EndObject();
  json.Key("components").BeginObject();
  json.Key("securitySchemes").BeginObject().Key("bearer").BeginObject();
  json.Key("type").String("http");
  json.Key("scheme").String("bearer");
  json.EndObject().EndObject();
  json.Key("schemas").BeginObject();
  WriteError(json, schemas);
  schemas.WriteAll();
  json.EndObject().EndObject().EndObject();
  return json.text();
}

}  // namespace

const std::string& OpenApi() {
  static const auto* const text = new std::string(WriteDocument() + "\n");
  return *text;
}

HttpReply OpenApiReply() {
  HttpReply reply;
  reply.body = OpenApi();
  reply.headers = {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-cache"}};
  return reply;
}

}  // namespace beamwright::http
