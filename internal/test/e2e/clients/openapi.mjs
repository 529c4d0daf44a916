// Two validators of OpenAPI look at a document: node openapi.mjs FILE.
import SwaggerParser from '@apidevtools/swagger-parser';
import { Validator } from '@seriousme/openapi-schema-validator';

const [file] = process.argv.slice(2);
const { valid, errors } = await new Validator().validate(file);
if (!valid) throw new Error(JSON.stringify(errors, null, 2));
await SwaggerParser.validate(file);
console.log('valid');
