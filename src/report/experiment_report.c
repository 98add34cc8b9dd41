#include "report/experiment_report.h"

#include "report/experiment_content.h"

int experiment_report_into(const char *dir, const char *out)
{
    Content content;
    int code = content_make(&content, dir, out);
    if (code != 0) {
        return code;
    }
    Page markdown = {0}, html = {0};
    content_markdown(&content, &markdown);
    content_html(&content, out, &html);
    code = page_save(&markdown, out, "report.md");
    code = code != 0 ? code : page_save(&html, out, "report.html");
    page_free(&html);
    content_free(&content);
    return code;
}

int experiment_report(const char *dir)
{
    return experiment_report_into(dir, dir);
}
