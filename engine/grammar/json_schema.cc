// Turns a JSON schema into a grammar of the texts that it admits. `Part` is an expression over
// characters and rules, `Grammar` is a list of rules; rule 0 is the whole text. Example:
//
//   {"type": "object", "required": ["a"],
//    "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}}
//
//   rule 0:  " "? "{" A B "}"        A: "a" ":" integer       B: ("," "b" ":" ("true" | "false"))?
//
// 1. Run bounds the depth of the text before the parser sees it, parses it, and reads the root
//    schema into rule 0.
// 2. Read dispatches: true and false; $ref, anyOf, allOf, const and enum, which must be the only
//    keyword that says something of the value (CheckAlone); else the types (ReadTypes). A schema
//    without a type has the types that its keywords are about.
// 3. ReadReference makes a rule for each schema that is referred to, once, and queues it
//    (pending_), so that a schema may refer to itself. The text that references lead to is bounded,
//    since each is read again.
// 4. ReadString, ReadInteger, ReadArray and ReadObject write what their keywords say, with the
//    pieces of grammar/expression.h.
//
// A keyword that is not served is an error (CheckKeywords), never ignored: an answer that does not
// follow the schema would be worse than a refusal. Errors name the place as a JSON pointer.

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/grammar/expression.h"
#include "ops/base/status.h"

namespace beamwright::grammar {
namespace {

using Json = rapidjson::Value;

constexpr int kDeepestSchema = 100;      // objects and lists of the schema
constexpr int64_t kMostCount = 1 << 15;  // of minLength, maxItems
// Characters of the schemas that references lead to, each counted once for its rule: twice the
// longest schema.
constexpr int64_t kMostReferred = 1 << 17;
constexpr double kMostInteger = 1e15;  // doubles are exact
constexpr int kUnbounded = Expression::kUnbounded;

absl::string_view TextOf(const Json& value) { return {value.GetString(), value.GetStringLength()}; }

const std::set<absl::string_view>& Annotations() {
  static const auto& names = *new std::set<absl::string_view>{
      "title", "description", "default",  "examples",  "$schema",    "$id",   "$comment",
      "$defs", "definitions", "readOnly", "writeOnly", "deprecated", "format"};
  return names;
}

// Keywords by the type that they are about.
const std::map<absl::string_view, std::set<absl::string_view>>& KeywordsOfTypes() {
  static const auto& keywords = *new std::map<absl::string_view, std::set<absl::string_view>>{
      {"object", {"properties", "required", "additionalProperties"}},
      {"array", {"items", "minItems", "maxItems"}},
      {"string", {"pattern", "minLength", "maxLength"}},
      {"integer", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}},
      {"number", {}},
      {"boolean", {}},
      {"null", {}}};
  return keywords;
}

bool IsOfType(const Json& value, absl::string_view type) {
  return (type == "object" && value.IsObject()) || (type == "array" && value.IsArray()) ||
         (type == "string" && value.IsString()) || (type == "boolean" && value.IsBool()) ||
         (type == "null" && value.IsNull()) || (type == "number" && value.IsNumber()) ||
         (type == "integer" && value.IsNumber() &&
          std::floor(value.GetDouble()) == value.GetDouble());
}

absl::StatusOr<Part> Fault(absl::string_view path, absl::string_view what) {
  return path.empty() ? Invalid("the schema ", what) : Invalid("at ", path, ": it ", what);
}

std::string Below(absl::string_view path, absl::string_view name) {
  return absl::StrCat(path, "/", absl::StrReplaceAll(name, {{"~", "~0"}, {"/", "~1"}}));
}

// The largest number of objects and lists that are open at once, also of a text that is not JSON.
int DepthOf(absl::string_view json) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    if (in_string) {
      i += json[i] == '\\' ? 1 : 0;
      in_string = i >= json.size() || json[i] != '"';
    } else if (json[i] == '"') {
      in_string = true;
    } else if (json[i] == '{' || json[i] == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (json[i] == '}' || json[i] == ']') {
      --depth;
    }
  }
  return deepest;
}

// About its length as a text.
int64_t LengthOf(const Json& value) {
  int64_t length = value.IsString() ? 1 + int64_t{value.GetStringLength()} : 1;
  if (value.IsArray()) {
    for (const Json& one : value.GetArray()) {
      length += LengthOf(one);
    }
  } else if (value.IsObject()) {
    for (const auto& member : value.GetObject()) {
      length += LengthOf(member.name) + LengthOf(member.value);
    }
  }
  return length;
}

class SchemaReader {
 public:
  absl::StatusOr<Grammar> Run(absl::string_view schema) {
    if (DepthOf(schema) > kDeepestSchema) {
      return Invalid("the schema nests deeper than ", kDeepestSchema);
    }
    document_.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(
        schema.data(), schema.size());
    if (document_.HasParseError()) {
      return Invalid("at byte ", document_.GetErrorOffset(), ": ",
                     rapidjson::GetParseError_En(document_.GetParseError()));
    }
    grammar_.rules.push_back(EmptyText());
    BW_ASSIGN_OR_RETURN(Part root, Read(document_, ""));
    // Behind a prompt many vocabularies write a space first.
    grammar_.rules[0] = Concat({Optional(Literal(" ")), std::move(root)});
    while (!pending_.empty()) {
      const Pending next = pending_.back();
      pending_.pop_back();
      BW_ASSIGN_OR_RETURN(grammar_.rules[static_cast<size_t>(next.rule)],
                          Read(*next.schema, next.path));
    }
    return std::move(grammar_);
  }

 private:
  struct Pending {
    int rule;
    const Json* schema;
    std::string path;
  };

  int AddRule(Part part) {
    grammar_.rules.push_back(std::move(part));
    return static_cast<int>(grammar_.rules.size()) - 1;
  }

  // Any value of JSON: a rule that refers to itself, made when first needed.
  Part Any() {
    if (any_ < 0) {
      any_ = AddRule(nullptr);
      grammar_.rules[static_cast<size_t>(any_)] = AnyJson(RuleRef(any_));
    }
    return RuleRef(any_);
  }

  // One schema, wherever it is. `path` is its place as a JSON pointer, for errors.
  absl::StatusOr<Part> Read(const Json& schema, const std::string& path) {
    if (schema.IsBool()) {
      return schema.GetBool() ? Any() : Alternate({});
    }
    if (!schema.IsObject()) {
      return Fault(path, "is neither an object nor true or false");
    }
    BW_RETURN_IF_ERROR(CheckKeywords(schema, path));
    for (const char* const name : {"$ref", "anyOf", "allOf", "const", "enum"}) {
      if (const auto found = schema.FindMember(name); found != schema.MemberEnd()) {
        BW_RETURN_IF_ERROR(CheckAlone(schema, name, path));
        const std::string below = Below(path, name);
        if (found->name == "$ref") {
          return ReadReference(found->value, below);
        }
        if (found->name == "const") {
          return JsonConstant(found->value);
        }
        if (!found->value.IsArray() || found->value.Empty()) {
          return Fault(below, "is no list of values");
        }
        return found->name == "enum" ? ReadEnum(schema, found->value, below)
                                     : ReadAnyOf(found->value, found->name == "allOf", below);
      }
    }
    return ReadTypes(schema, path);
  }

  // Every keyword is one of four: an annotation, which says nothing of the value; one of the five
  // that Read looks for; one of a type; or an error.
  static absl::Status CheckKeywords(const Json& schema, const std::string& path) {
    static const std::set<absl::string_view> others = {"type",  "$ref",  "anyOf",
                                                       "allOf", "const", "enum"};
    std::set<absl::string_view> seen;
    for (const auto& member : schema.GetObject()) {
      const absl::string_view name = TextOf(member.name);
      bool is_known = Annotations().count(name) > 0 || others.count(name) > 0;
      for (const auto& [type, keywords] : KeywordsOfTypes()) {
        is_known = is_known || keywords.count(name) > 0;
      }
      const bool is_false_unique = name == "uniqueItems" && member.value.IsFalse();
      if (!is_known && !is_false_unique) {
        return Fault(path, absl::StrCat("has '", name, "', which is not served")).status();
      }
      if (!seen.insert(name).second) {
        return Fault(path, absl::StrCat("has '", name, "' twice")).status();
      }
    }
    return absl::OkStatus();
  }

  // Checks that no other keyword restricts the value further.
  static absl::Status CheckAlone(const Json& schema, absl::string_view name,
                                 const std::string& path) {
    for (const auto& member : schema.GetObject()) {
      const absl::string_view other = TextOf(member.name);
      const bool narrows = other == "type" && (name == "enum");
      if (other != name && !narrows && Annotations().count(other) == 0) {
        return Fault(path,
                     absl::StrCat("has '", other, "' besides '", name, "', which is not served"))
            .status();
      }
    }
    return absl::OkStatus();
  }

  // Follows the pointer from the root, name by name. Two pointers to the same schema share its
  // rule, and so does a schema that leads back to itself: the rule is there before it is read.
  absl::StatusOr<Part> ReadReference(const Json& value, const std::string& path) {
    if (!value.IsString() || value.GetStringLength() == 0 || value.GetString()[0] != '#') {
      return Fault(path, "is no reference into the schema ('#/...')");
    }
    const std::string pointer(TextOf(value).substr(1));
    const Json* found = &document_;
    const std::vector<std::string> names = absl::StrSplit(pointer, '/');
    for (size_t i = 1; i < names.size() && found != nullptr; ++i) {
      const std::string name = absl::StrReplaceAll(names[i], {{"~1", "/"}, {"~0", "~"}});
      int index = 0;
      if (found->IsObject() && found->HasMember(name.c_str())) {
        found = &(*found)[name.c_str()];
      } else if (found->IsArray() && absl::SimpleAtoi(name, &index) && index >= 0 &&
                 index < static_cast<int>(found->Size())) {
        found = &(*found)[static_cast<rapidjson::SizeType>(index)];
      } else {
        found = nullptr;
      }
    }
    if (found == nullptr || !names[0].empty()) {
      return Fault(path, absl::StrCat("refers to '#", pointer, "', which is not there"));
    }
    const auto [known, is_new] = references_.emplace(found, 0);
    if (!is_new) {
      return RuleRef(known->second);
    }
    num_referred_ += LengthOf(*found);
    if (num_referred_ > kMostReferred) {
      return Fault(path, absl::StrCat("is one of references to more than ", kMostReferred,
                                      " characters of the schema together"));
    }
    known->second = AddRule(EmptyText());
    pending_.push_back({known->second, found, pointer});
    return RuleRef(known->second);
  }

  // The values of the list that are of the type, if one is given.
  static absl::StatusOr<Part> ReadEnum(const Json& schema, const Json& values,
                                       const std::string& path) {
    const auto type = schema.FindMember("type");
    std::vector<Part> ways;
    for (const Json& value : values.GetArray()) {
      const auto is_of = [&](const Json& one) {
        return one.IsString() && IsOfType(value, TextOf(one));
      };
      bool fits = type == schema.MemberEnd() || is_of(type->value);
      if (type != schema.MemberEnd() && type->value.IsArray()) {
        fits = std::any_of(type->value.Begin(), type->value.End(), is_of);
      }
      if (fits) {
        ways.push_back(JsonConstant(value));
      }
    }
    if (ways.empty()) {
      return Fault(path, "has no value of the type");
    }
    return Alternate(std::move(ways));
  }

  // allOf of one schema, which generators write around a reference, is that schema. Of more than
  // one the texts would be an intersection.
  absl::StatusOr<Part> ReadAnyOf(const Json& values, bool is_all, const std::string& path) {
    if (is_all && values.Size() > 1) {
      return Fault(path, "has more than one schema, which is not served");
    }
    std::vector<Part> ways;
    for (rapidjson::SizeType i = 0; i < values.Size(); ++i) {
      BW_ASSIGN_OR_RETURN(Part one, Read(values[i], Below(path, absl::StrCat(i))));
      ways.push_back(std::move(one));
    }
    return Alternate(std::move(ways));
  }

  // An alternative for each type. Without a type, for each type that has one of its keywords;
  // without keywords any value.
  absl::StatusOr<Part> ReadTypes(const Json& schema, const std::string& path) {
    std::vector<std::string> types;
    if (const auto type = schema.FindMember("type"); type != schema.MemberEnd()) {
      const Json* const first = type->value.IsArray() ? type->value.Begin() : &type->value;
      const Json* const last = type->value.IsArray() ? type->value.End() : first + 1;
      for (const Json* one = first; one != last; ++one) {
        if (!one->IsString() || KeywordsOfTypes().count(TextOf(*one)) == 0) {
          return Fault(Below(path, "type"), "names no type of JSON");
        }
        types.emplace_back(TextOf(*one));
      }
      if (types.empty()) {
        return Fault(Below(path, "type"), "names no type of JSON");
      }
    } else {
      for (const auto& [type_name, keywords] : KeywordsOfTypes()) {
        if (std::any_of(keywords.begin(), keywords.end(), [&](absl::string_view name) {
              return schema.HasMember(std::string(name).c_str());
            })) {
          types.emplace_back(type_name);
        }
      }
      if (types.empty()) {
        return Any();
      }
    }
    std::vector<Part> ways;
    for (const std::string& type : types) {
      BW_ASSIGN_OR_RETURN(Part one, ReadType(schema, type, path));
      ways.push_back(std::move(one));
    }
    return Alternate(std::move(ways));
  }

  absl::StatusOr<Part> ReadType(const Json& schema, const std::string& type,
                                const std::string& path) {
    if (type == "object") {
      return ReadObject(schema, path);
    }
    if (type == "array") {
      return ReadArray(schema, path);
    }
    if (type == "string") {
      return ReadString(schema, path);
    }
    if (type == "integer") {
      return ReadInteger(schema, path);
    }
    if (type == "number") {
      for (const absl::string_view name : KeywordsOfTypes().at("integer")) {
        if (schema.HasMember(std::string(name).c_str())) {
          return Fault(path, absl::StrCat("has '", name, "', which is served for integers alone"));
        }
      }
      return JsonNumber();
    }
    return type == "null" ? Literal("null") : Alternate({Literal("true"), Literal("false")});
  }

  // Sets the count of a keyword, if there is one.
  static absl::Status ReadCount(const Json& schema, const char* name, const std::string& path,
                                int& count) {
    const auto found = schema.FindMember(name);
    if (found == schema.MemberEnd()) {
      return absl::OkStatus();
    }
    if (!found->value.IsInt64() || found->value.GetInt64() < 0 ||
        found->value.GetInt64() > kMostCount) {
      return Fault(Below(path, name), absl::StrCat("is no integer from 0 to ", kMostCount))
          .status();
    }
    count = static_cast<int>(found->value.GetInt64());
    return absl::OkStatus();
  }

  // A pattern or a length, not both: their intersection is not built.
  static absl::StatusOr<Part> ReadString(const Json& schema, const std::string& path) {
    int least = 0;
    int most = kUnbounded;
    BW_RETURN_IF_ERROR(ReadCount(schema, "minLength", path, least));
    BW_RETURN_IF_ERROR(ReadCount(schema, "maxLength", path, most));
    if (most != kUnbounded && least > most) {
      return Fault(path, "has a minLength above its maxLength");
    }
    const auto pattern = schema.FindMember("pattern");
    if (pattern == schema.MemberEnd()) {
      return JsonString(Repeat(JsonCharacter({{0, kMaxCode}}), least, most));
    }
    if (least != 0 || most != kUnbounded) {
      return Fault(path, "has a pattern and a length, which is not served");
    }
    if (!pattern->value.IsString()) {
      return Fault(Below(path, "pattern"), "is no text");
    }
    RegexOptions options;
    options.write = JsonCharacter;
    options.searches = true;
    absl::StatusOr<Part> characters = ReadRegex(TextOf(pattern->value), options);
    if (!characters.ok()) {
      return Annotate(characters.status(), absl::StrCat("at ", Below(path, "pattern")));
    }
    return JsonString(*std::move(characters));
  }

  // The tightest of the bounds, rounded to integers inwards; an exclusive bound that is an integer
  // moves by one.
  static absl::StatusOr<Part> ReadInteger(const Json& schema, const std::string& path) {
    std::optional<int64_t> least;
    std::optional<int64_t> most;
    for (const char* const name : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"}) {
      const auto found = schema.FindMember(name);
      if (found == schema.MemberEnd()) {
        continue;
      }
      if (!found->value.IsNumber() || !(std::abs(found->value.GetDouble()) <= kMostInteger)) {
        return Fault(Below(path, name), "is no number from -1e15 to 1e15");
      }
      const double bound = found->value.GetDouble();
      const bool is_exact = std::floor(bound) == bound;
      const bool excludes = is_exact && absl::string_view(name).substr(0, 9) == "exclusive";
      if (absl::StrContains(name, "inimum")) {
        const auto one = static_cast<int64_t>(std::ceil(bound)) + (excludes ? 1 : 0);
        least = std::max(least.value_or(one), one);
      } else {
        const auto one = static_cast<int64_t>(std::floor(bound)) - (excludes ? 1 : 0);
        most = std::min(most.value_or(one), one);
      }
    }
    if (least.has_value() && most.has_value() && *least > *most) {
      return Fault(path, "admits no integer");
    }
    return JsonInteger(least, most);
  }

  absl::StatusOr<Part> ReadArray(const Json& schema, const std::string& path) {
    int least = 0;
    int most = kUnbounded;
    BW_RETURN_IF_ERROR(ReadCount(schema, "minItems", path, least));
    BW_RETURN_IF_ERROR(ReadCount(schema, "maxItems", path, most));
    if (most != kUnbounded && least > most) {
      return Fault(path, "has minItems above its maxItems");
    }
    Part item;
    if (const auto items = schema.FindMember("items"); items != schema.MemberEnd()) {
      BW_ASSIGN_OR_RETURN(item, Read(items->value, Below(path, "items")));
    } else {
      item = Any();
    }
    return JsonList("[", item, least, most, "]");
  }

  struct Property {
    Part member;
    bool is_required = false;
  };

  // The properties in the schema's order, then the names that only `required` has. Texts have them
  // in this order.
  absl::StatusOr<std::vector<Property>> ReadProperties(const Json& schema, const std::string& path,
                                                       bool is_closed) {
    std::vector<std::string> required;
    if (const auto found = schema.FindMember("required"); found != schema.MemberEnd()) {
      if (!found->value.IsArray()) {
        return Fault(Below(path, "required"), "is no list of names").status();
      }
      for (const Json& name : found->value.GetArray()) {
        if (!name.IsString()) {
          return Fault(Below(path, "required"), "is no list of names").status();
        }
        required.emplace_back(TextOf(name));
      }
    }
    std::set<std::string> open(required.begin(), required.end());
    std::vector<Property> properties;
    if (const auto found = schema.FindMember("properties"); found != schema.MemberEnd()) {
      const std::string below = Below(path, "properties");
      if (!found->value.IsObject()) {
        return Fault(below, "is no object").status();
      }
      std::set<absl::string_view> seen;
      for (const auto& member : found->value.GetObject()) {
        const std::string name(TextOf(member.name));
        if (!seen.insert(TextOf(member.name)).second) {
          return Fault(below, absl::StrCat("has '", name, "' twice")).status();
        }
        BW_ASSIGN_OR_RETURN(Part value, Read(member.value, Below(below, name)));
        properties.push_back(
            {JsonMember(JsonConstant(member.name), std::move(value)), open.erase(name) > 0});
      }
    }
    for (const std::string& name : required) {
      if (open.erase(name) == 0) {
        continue;
      }
      if (is_closed) {
        return Fault(Below(path, "required"),
                     absl::StrCat("has '", name, "', which is not among the properties"))
            .status();
      }
      const Json text(name.data(), static_cast<rapidjson::SizeType>(name.size()),
                      document_.GetAllocator());
      properties.push_back({JsonMember(JsonConstant(text), Any()), true});
    }
    return properties;
  }

  // An object with properties has these, in the schema's order, and no others. One without
  // properties is a map from any name to the values of additionalProperties.
  absl::StatusOr<Part> ReadObject(const Json& schema, const std::string& path) {
    const auto further = schema.FindMember("additionalProperties");
    const bool has_further = further != schema.MemberEnd();
    const bool is_closed = has_further && further->value.IsFalse();
    BW_ASSIGN_OR_RETURN(const std::vector<Property> properties,
                        ReadProperties(schema, path, is_closed));
    const bool is_map = !schema.HasMember("properties") && properties.empty() && !is_closed;
    if (is_map || (has_further && !further->value.IsBool())) {
      // Checked even where further properties are never written.
      BW_ASSIGN_OR_RETURN(const Part value,
                          has_further ? Read(further->value, Below(path, "additionalProperties"))
                                      : absl::StatusOr<Part>(Any()));
      if (is_map) {
        return JsonList("{", JsonMember(AnyJsonString(), value), 0, kUnbounded, "}");
      }
    }
    // `first`: the members from property i on, where none has been written; `behind`: the same
    // after a written one, which begin with a comma. Both are built from the last property on, as
    // rules that are written once; each ends with the next one's and so needs no stack.
    Part behind = EmptyText();
    Part first = EmptyText();
    for (size_t i = properties.size(); i > 0; --i) {
      const Property& property = properties[i - 1];
      const Part member = RuleRef(AddRule(property.member));
      const Part begins = Concat({member, behind});
      first = property.is_required ? begins : RuleRef(AddRule(Alternate({begins, first})));
      Part one = Concat({JsonSeparator(","), member});
      behind = RuleRef(AddRule(
          Concat({property.is_required ? std::move(one) : Optional(std::move(one)), behind})));
    }
    return Concat({Literal("{"), std::move(first), Literal("}")});
  }

  rapidjson::Document document_;
  Grammar grammar_;
  int any_ = -1;
  std::map<const Json*, int> references_;  // by what they lead to: pointers have many spellings
  int64_t num_referred_ = 0;
  std::vector<Pending> pending_;
};

}  // namespace

absl::StatusOr<Grammar> ReadJsonSchema(absl::string_view schema) {
  return SchemaReader().Run(schema);
}

}  // namespace beamwright::grammar
