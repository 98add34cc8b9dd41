# Text of a terminal as a picture: awk -f docs/img/terminal.awk demo.log > docs/img/demo-terminal.svg
# Lines that start with "$ " are commands; longer lines than 108 columns are cut.
function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    return text
}
{
    line[NR] = length($0) > 108 ? substr($0, 1, 107) "…" : $0
}
END {
    height = 18 * NR + 44
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"920\" height=\"%d\" viewBox=\"0 0 920 %d\">\n", height, height
    printf "<rect width=\"920\" height=\"%d\" rx=\"8\" fill=\"#1e1e24\"/>\n", height
    print "<g fill=\"#e8e8e8\" font-family=\"ui-monospace,Menlo,Consolas,monospace\" font-size=\"13\" xml:space=\"preserve\">"
    for (i = 1; i <= NR; i++)
        printf "<text x=\"20\" y=\"%d\"%s>%s</text>\n", 18 * i + 18, line[i] ~ /^\$ / ? " fill=\"#8fd18f\"" : "", escaped(line[i])
    print "</g></svg>"
}
